// The place of the one agent of a guest: what runs there, and whether another may start. An agent that ended
// or could not start keeps the place until the next one: it still answers queries.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bridge/agents/runtime.hpp"
#include "bridge/guest/command.hpp"

namespace atl::guest {

/// Null: no such kind.
std::unique_ptr<AgentRuntime> make_agent(Services& services, const AgentChoice& choice);

class AgentSlot {
  public:
    /// Why no agent may start now; empty: one may.
    std::string_view why_busy() const noexcept;
    /// `on_ready` is called once, possibly at once, unless the start is cancelled; `on_exit` at most once,
    /// after a good ready. Precondition: why_busy() is empty.
    void launch(std::unique_ptr<AgentRuntime> agent, AgentRuntime::OnReady on_ready,
                AgentRuntime::OnExit on_exit);
    /// Ends an agent that is not ready yet, unless the guest is ending anyway.
    void cancel_start();
    /// Ends the agent, then calls `on_stopped`, possibly at once. No agent starts from here on.
    void stop(std::function<void()> on_stopped);
    /// Null before the first start and after a cancelled one.
    AgentRuntime* agent() const noexcept { return agent_.get(); }

  private:
    enum class State : std::uint8_t { none, starting, ready };

    State state_ = State::none;
    bool stopping_ = false;
    std::unique_ptr<AgentRuntime> agent_;
};

}  // namespace atl::guest
