#include "http/api/execution_socket.hpp"

#include <utility>

namespace atl::http {

ExecutionSocket::ExecutionSocket(std::shared_ptr<execution::Execution> execution,
                                 execution::OffloadedChecks* checks, std::uint64_t after, StreamLease place,
                                 AdmitFrame admit_frame, base::SteadyTime expires_at)
    : FrameSession({base::k_max_body_bytes, expires_at, std::move(admit_frame)}),
      place_(std::move(place)),
      follower_(std::move(execution)),
      checks_(checks),
      cursor_(after) {}

void ExecutionSocket::begin(const std::shared_ptr<WakeEvent>& wake) {
    wake_ = wake;
    follower_.on_wake([this] {
        woken_ = true;
        wake_->post();
    });
}

void ExecutionSocket::produce(base::SteadyTime) {
    woken_ = false;
    if (parts_) {
        splitting_.reset();
        auto parts = *std::exchange(parts_, std::nullopt);
        take(parts.has_error() ? base::Result<ExecutionFrame>(parts.error())
                               : read_execution_frame(std::move(*parts)));
    }
    execution::Execution& execution = follower_.execution();
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
    execution.note_read();
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
    if (checks_ != nullptr && is_long_answer(payload))
        return split(std::string(payload));
    const auto json = parse(payload, k_short_answer_json);
    take(json.has_error() ? base::Result<ExecutionFrame>(json.error()) : read_execution_frame(*json));
}

void ExecutionSocket::split(std::string text) {
    const std::string& user = follower_.execution().holder().name();
    // The callback leaves its answer to produce(): out() may not change while it is being sent.
    splitting_ = checks_->split(user, k_answer_value, std::move(text),
                                [this](base::Result<execution::SplitJson> parts) {
                                    parts_ = std::move(parts);
                                    woken_ = true;
                                    wake_->post();
                                });
}

void ExecutionSocket::take(const base::Result<ExecutionFrame>& frame) {
    if (frame.has_error())
        return write_rejection(out(), frame.error());
    if (const auto done = handle(*frame); done.has_error())
        write_rejection(out(), done.error(), frame->id);
    else if (!frame->id.empty())
        write_frame(out(), Opcode::text, "{\"type\":\"accepted\",\"id\":" + frame->id + "}");
}

base::Result<void> ExecutionSocket::handle(const ExecutionFrame& frame) {
    if (frame.kind == ExecutionFrame::Kind::answer)
        return follower_.execution().answer(frame.call_id, frame.answer);
    follower_.execution().cancel("the caller cancelled it");
    return {};
}

}  // namespace atl::http
