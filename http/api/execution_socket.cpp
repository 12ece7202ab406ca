#include "http/api/execution_socket.hpp"

#include <utility>

namespace atl::http {

ExecutionSocket::ExecutionSocket(std::shared_ptr<execution::Execution> execution, std::uint64_t after,
                                 StreamLease place, std::function<base::Result<void>()> admit_frame,
                                 base::SteadyTime expires_at)
    : FrameSession({base::k_max_body_bytes, nullptr, expires_at, std::move(admit_frame)}),
      place_(std::move(place)),
      follower_(std::move(execution)),
      cursor_(after) {}

void ExecutionSocket::begin(const std::shared_ptr<WakeEvent>& wake) {
    follower_.on_wake([this, wake] {
        woken_ = true;
        wake->post();
    });
}

void ExecutionSocket::produce(base::SteadyTime) {
    woken_ = false;
    const execution::Execution& execution = follower_.execution();
    std::size_t written = 0;
    for (const execution::ExecutionEvent& event : execution.events(cursor_)) {
        if (written >= base::k_replay_batch_bytes) {
            woken_ = true;
            return;
        }
        std::string text;
        event.write(text);
        written += text.size();
        cursor_ = event.seq;
        write_frame(out(), Opcode::text, text);
    }
    if (execution.refusal())
        close(CloseCode::try_again_later, base::code_name(execution.refusal()->code()),
              execution.refusal()->detail());
    else if (execution.has_ended())
        close(CloseCode::normal, "ended");
}

void ExecutionSocket::on_message(Opcode opcode, std::string_view payload) {
    if (opcode != Opcode::text)
        return close(CloseCode::unsupported_data, word_of(CloseCode::unsupported_data),
                     "frames are JSON text");
    const auto json = parse_json(payload);
    if (json.has_error())
        return write_rejection(out(), json.error());
    const auto frame = read_execution_frame(*json);
    if (frame.has_error())
        return write_rejection(out(), frame.error());
    if (const auto done = obey(*frame); done.has_error())
        write_rejection(out(), done.error(), frame->id);
    else if (!frame->id.empty())
        write_frame(out(), Opcode::text, "{\"type\":\"accepted\",\"id\":" + frame->id + "}");
}

base::Result<void> ExecutionSocket::obey(const ExecutionFrame& frame) {
    if (frame.kind == ExecutionFrame::Kind::answer)
        return follower_.execution().answer(frame.call_id, frame.answer);
    follower_.execution().cancel("the caller cancelled it");
    return {};
}

}  // namespace atl::http
