// An agent that repeats its input: one turn is one write.
#pragma once

#include "bridge/agents/runtime.hpp"

namespace atl::guest {

class EchoAgent final : public AgentRuntime {
  public:
    void start(OnReady on_ready, OnExit) override { on_ready({}); }
    Begun begin(const TurnRequest& request, TurnSink& sink) override;
    void resume(TurnSink&) override {}
    void abandon(TurnSink&) override {}
    bool interrupt(std::string_view) override { return false; }
    void stop(std::function<void()> on_stopped) override { on_stopped(); }
};

}  // namespace atl::guest
