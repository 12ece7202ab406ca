#include "bridge/control_stream.hpp"

#include <utility>

#include "bridge/reply_line.hpp"

namespace atl::bridge {
namespace {

// Four lists a second on the average.
constexpr std::size_t k_ports_line_cost = base::k_truncated_read_bytes_per_s / 4;

}  // namespace

ControlStream::ControlStream(std::shared_ptr<StreamContext> context, const std::string& path,
                             std::string command, Starts starts, std::chrono::seconds deadline,
                             OnReady on_ready, OnAgentExit on_agent_exit, OnPorts on_ports, OnLost on_lost)
    : LineReader(base::k_max_reply_line_bytes),
      context_(std::move(context)),
      on_ready_(std::move(on_ready)),
      on_agent_exit_(std::move(on_agent_exit)),
      on_ports_(std::move(on_ports)),
      on_lost_(std::move(on_lost)),
      starts_(starts),
      agent_(starts == Starts::guest ? Agent::none : Agent::running) {
    const bool waits_for_program = starts_ == Starts::guest_and_program;
    deadline_ = context_->timers.arm(deadline, [this, waits_for_program, deadline] {
        not_ready(waits_for_program ? base::Errc::agent_failed : base::Errc::deadline_exceeded,
                  std::string("the ") + (waits_for_program ? "agent" : "guest") + " was not ready within " +
                      std::to_string(deadline.count()) + " s");
    });
    stream_ = Stream::open(context_, path, std::move(command), *this);
}

ControlStream::~ControlStream() {
    context_->timers.cancel(deadline_);
    context_->timers.cancel(exit_timer_);
    stream_->close();
}

base::Result<void> ControlStream::begin_agent() {
    if (on_ready_ || !stream_->has_reader())
        return base::Error(base::Errc::bridge_failed, "the guest is not there");
    if (agent_ == Agent::running)
        return base::Error(base::Errc::agent_failed, "an agent runs already");
    if (agent_ == Agent::starting || exit_timer_ != 0)
        return base::Error(base::Errc::agent_failed, "an agent is being started already");
    agent_ = Agent::starting;
    return {};
}

void ControlStream::end_agent_start(const base::Result<void>& result) {
    std::optional<std::string> exit = std::exchange(early_exit_, std::nullopt);
    if (!result) {
        agent_ = result.error().code() == base::Errc::agent_failed ? Agent::none : Agent::unknown;
        return;
    }
    agent_ = Agent::running;
    if (!exit)
        return;
    exit_timer_ = context_->timers.arm(base::Millis{0}, [this, detail = std::move(*exit)] {
        exit_timer_ = 0;
        agent_gone(detail);
    });
}

void ControlStream::on_line(std::string_view line) {
    if (on_ready_)
        return on_reply(line);
    if (on_ports_) {
        if (auto ports = parse_ports_line(line)) {
            stream_->charge(k_ports_line_cost);
            const OnPorts tell = on_ports_;
            return tell(std::move(*ports));
        }
    }
    std::optional<std::string> detail = parse_agent_exit_line(line);
    // Each start has at most one exit, so none is expected while an earlier one is still to be passed on.
    const bool expected = agent_ != Agent::none && !early_exit_ && exit_timer_ == 0;
    if (!detail || !expected)
        return break_off();
    agent_gone(std::move(*detail));
}

void ControlStream::on_reply(std::string_view line) {
    const std::optional<ReplyLine> reply = parse_reply_line(line);
    if (!reply)
        return not_ready(base::Errc::bridge_failed, "the guest's answer to start is not a reply");
    if (!reply->ok)
        return not_ready(starts_ == Starts::guest ? base::Errc::sandbox_failed : base::Errc::agent_failed,
                         reply->error);
    context_->timers.cancel(std::exchange(deadline_, 0));
    std::exchange(on_ready_, nullptr)(base::Result<void>());
}

void ControlStream::on_end(Stream::End, std::string_view detail) {
    if (on_ready_)
        return not_ready(base::Errc::bridge_failed, std::string(detail) + " before it was ready");
    lost("lost its control stream");
}

void ControlStream::not_ready(base::Errc code, std::string detail) {
    context_->timers.cancel(std::exchange(deadline_, 0));
    stream_->close();
    agent_ = Agent::none;
    std::exchange(on_ready_, nullptr)(base::Error(code, std::move(detail)));
}

void ControlStream::break_off() {
    stream_->close();
    lost("broke the protocol of its control stream");
}

void ControlStream::lost(std::string detail) {
    const OnLost tell = std::exchange(on_lost_, nullptr);
    tell ? tell(std::move(detail)) : agent_gone(std::move(detail));
}

void ControlStream::agent_gone(std::string detail) {
    if (agent_ == Agent::starting) {
        if (!early_exit_)
            early_exit_ = std::move(detail);
        return;
    }
    // An exit of the agent that is already queued is this same end: it is told once.
    if (std::exchange(agent_, Agent::none) != Agent::running)
        return;
    context_->timers.cancel(std::exchange(exit_timer_, 0));
    const OnAgentExit tell = on_agent_exit_;
    tell(std::move(detail));
}

}  // namespace atl::bridge
