#include "http/api/execution_stream.hpp"

namespace atl::http {

BodyStream::State ExecutionStream::pull(std::string& out, std::size_t limit_bytes) {
    execution::Execution& execution = follower_.execution();
    for (const execution::ExecutionEvent& event : execution.events(cursor_)) {
        if (out.size() >= limit_bytes)
            return State::more;
        cursor_ = event.seq;
        out.append("id: ").append(std::to_string(event.seq)).append("\n");
        if (names_ == EventNames::types)
            out.append("event: ").append(event.type).append("\n");
        out += "data: ";
        event.write(out);
        out += "\n\n";
    }
    if (!execution.has_ended())
        return State::waiting;
    // It could not begin although it had its place in the line.
    if (execution.refusal())
        write_stream_closed(out, *execution.refusal(), {cursor_, {}}, names_);
    execution.note_read();
    return State::finished;
}

void ExecutionStream::end_early(base::Errc reason, std::string& out) {
    const base::Error error(reason, reason == base::Errc::token_expired
                                        ? "The token's time is over. Get a new one, and go on after the last "
                                          "event that you saw."
                                        : "The server stops.");
    write_stream_closed(out, error, {cursor_, {}}, names_);
}

}  // namespace atl::http
