#include "bridge/guest/agent_slot.hpp"

#include <utility>

#include "bridge/agents/echo_agent.hpp"
#include "bridge/agents/process_agent.hpp"
#include "bridge/agents/shell_agent.hpp"
#include "bridge/agents/timed_agent.hpp"
#include "bridge/guest/log.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {

std::unique_ptr<AgentRuntime> make_agent(Services& services, const AgentChoice& choice) {
    std::unique_ptr<AgentRuntime> agent;
    if (choice.kind == bridge::agent_kind::shell)
        agent = std::make_unique<ShellAgent>(services);
    else if (choice.kind == bridge::agent_kind::echo)
        agent = std::make_unique<EchoAgent>();
    else if (choice.kind == bridge::agent_kind::command)
        agent = std::make_unique<ProcessAgent>(services, choice.argv, choice.resume);
    if (agent && Timing::is_wanted() && lacks_times(choice))
        agent = std::make_unique<TimedAgent>(std::move(agent), choice.kind, log);
    return agent;
}

std::string_view AgentSlot::why_busy() const noexcept {
    if (stopping_)
        return "the sandbox is ending";
    switch (state_) {
        case State::starting:
            return "an agent is being started already";
        case State::ready:
            return "an agent runs already";
        case State::none:
            break;
    }
    return {};
}

void AgentSlot::launch(std::unique_ptr<AgentRuntime> agent, AgentRuntime::OnReady on_ready,
                       AgentRuntime::OnExit on_exit) {
    agent_ = std::move(agent);
    state_ = State::starting;
    agent_->start(
        [this, on_ready = std::move(on_ready)](const std::string& error) {
            state_ = error.empty() ? State::ready : State::none;
            on_ready(error);
        },
        [this, on_exit = std::move(on_exit)](const std::string& detail) {
            state_ = State::none;
            on_exit(detail);
        });
}

void AgentSlot::cancel_start() {
    if (stopping_ || state_ != State::starting)
        return;
    state_ = State::none;
    agent_.reset();
}

void AgentSlot::stop(std::function<void()> on_stopped) {
    stopping_ = true;
    if (!agent_)
        return on_stopped();
    agent_->stop(std::move(on_stopped));
}

}  // namespace atl::guest
