// The default agent: a message is run by bash in the workspace, its output streams as text deltas. The turn
// ends when that bash exits, even if it left background processes: the bytes in the pipe are sent, then
// `turn_complete` and `done`. State of a turn lives in shell_run.hpp.
#pragma once

#include <list>

#include "bridge/agents/runtime.hpp"
#include "bridge/agents/shell_run.hpp"

namespace atl::guest {

class ShellAgent final : public AgentRuntime {
  public:
    explicit ShellAgent(Services& services) : services_(services) {}

    void start(OnReady on_ready, OnExit) override { on_ready({}); }
    void begin(TurnRequest request, TurnSink& sink) override;
    void resume(TurnSink& sink) override;
    void abandon(TurnSink& sink) override;
    bool interrupt(std::string_view turn) override;
    void stop(std::function<void()> on_stopped) override;

  private:
    ShellRun* run_of(const TurnSink& sink);
    void ended(const ShellRun& run);

    Services& services_;
    std::list<ShellRun> runs_;
    std::function<void()> on_stopped_;
};

}  // namespace atl::guest
