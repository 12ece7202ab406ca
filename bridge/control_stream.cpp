#include "bridge/control_stream.hpp"

#include <utility>

#include "bridge/reply_line.hpp"

namespace atl::bridge {

ControlStream::ControlStream(std::shared_ptr<StreamContext> context, const std::string& path,
                             std::string command, OnReady on_ready, OnAgentExit on_agent_exit)
    : context_(std::move(context)), on_ready_(std::move(on_ready)), on_agent_exit_(std::move(on_agent_exit)) {
    deadline_ = context_->timers.arm(base::k_start_deadline, [this] {
        not_ready(base::Errc::deadline_exceeded,
                  "the agent was not ready within " + std::to_string(base::k_start_deadline.count()) + " s");
    });
    stream_ = LineStream::open(context_, path, std::move(command), base::k_max_reply_line_bytes, *this);
}

ControlStream::~ControlStream() {
    context_->timers.cancel(deadline_);
    stream_->close();
}

void ControlStream::on_line(std::string_view line) {
    if (on_ready_)
        return on_reply(line);
    std::optional<std::string> detail = parse_agent_exit_line(line);
    if (detail && on_agent_exit_)
        return std::exchange(on_agent_exit_, nullptr)(std::move(*detail));
    stream_->close();
    agent_gone("broke the protocol of its control stream");
}

void ControlStream::on_reply(std::string_view line) {
    const std::optional<ReplyLine> reply = parse_reply_line(line);
    if (!reply)
        return not_ready(base::Errc::bridge_failed, "the guest's answer to start is not a reply");
    if (!reply->ok)
        return not_ready(base::Errc::sandbox_failed, reply->error);
    context_->timers.cancel(std::exchange(deadline_, 0));
    std::exchange(on_ready_, nullptr)(base::Result<void>());
}

void ControlStream::on_end(LineStream::End, std::string_view detail) {
    if (on_ready_)
        return not_ready(base::Errc::bridge_failed, std::string(detail) + " before it was ready");
    agent_gone("lost its control stream");
}

void ControlStream::not_ready(base::Errc code, std::string detail) {
    context_->timers.cancel(std::exchange(deadline_, 0));
    stream_->close();
    on_agent_exit_ = nullptr;
    std::exchange(on_ready_, nullptr)(base::Error(code, std::move(detail)));
}

void ControlStream::agent_gone(std::string detail) {
    if (on_agent_exit_)
        std::exchange(on_agent_exit_, nullptr)(std::move(detail));
}

}  // namespace atl::bridge
