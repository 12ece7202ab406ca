// The default agent: a message is run by bash, its output streams as text deltas that say of which stream
// they are. The turn ends when that bash exits, even if it left background processes: the bytes in the pipes
// are sent, then `turn_complete` and `done`. The first message runs in the workspace, each later one in the
// directory and with the exported variables that the one before it ended with. State of a turn lives in
// shell_run.hpp.
#pragma once

#include <list>

#include "bridge/agents/runtime.hpp"
#include "bridge/agents/shell_run.hpp"

namespace atl::guest {

class ShellAgent final : public AgentRuntime {
  public:
    explicit ShellAgent(Services& services) : services_(services) {}

    void start(OnReady on_ready, OnExit) override { on_ready({}); }
    Begun begin(const TurnRequest& request, TurnSink& sink) override;
    void resume(TurnSink& sink) override;
    void abandon(TurnSink& sink) override;
    bool interrupt(std::string_view turn) override;
    void stop(std::function<void()> on_stopped) override;

  private:
    ShellRun* run_of(const TurnSink& sink);
    void ended(const ShellRun& run);

    Services& services_;
    ShellState state_;  // that the next message begins with
    std::list<ShellRun> runs_;
    std::function<void()> on_stopped_;
};

}  // namespace atl::guest
