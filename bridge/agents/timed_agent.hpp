// An agent of the guest's with its times in the sandbox's log, for `ASH_DEBUG_TIMING=1` (timing.hpp). It
// passes everything on as it is. Not for an agent behind an adapter, which tells its times itself.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "bridge/agents/runtime.hpp"
#include "bridge/agents/timing.hpp"

namespace atl::guest {

struct AgentChoice;

/// True unless the agent tells its times itself.
bool lacks_times(const AgentChoice& choice);

class TimedAgent final : public AgentRuntime {
  public:
    /// `log` gets each line without its newline.
    TimedAgent(std::unique_ptr<AgentRuntime> agent, std::string name,
               std::function<void(std::string_view)> log);

    void start(OnReady on_ready, OnExit on_exit) override;
    Begun begin(const TurnRequest& request, TurnSink& sink) override;
    void resume(TurnSink& sink) override;
    void abandon(TurnSink& sink) override;
    bool interrupt(std::string_view turn) override { return agent_->interrupt(turn); }
    bool permit(std::string_view turn, std::string_view line) override { return agent_->permit(turn, line); }
    void stop(std::function<void()> on_stopped) override { agent_->stop(std::move(on_stopped)); }

  private:
    /// The sink of one turn, in front of the host's.
    class Sink final : public TurnSink {
      public:
        Sink(TimedAgent& agent, TurnSink& host) : agent_(agent), host_(host) {}
        void write(std::string_view lines) override;
        bool wants_more() const override { return host_.wants_more(); }
        void finish() override { agent_.release(*this).finish(); }
        void break_off() override { agent_.release(*this).break_off(); }
        TurnSink& host() const noexcept { return host_; }

      private:
        TimedAgent& agent_;
        TurnSink& host_;
    };

    Sink* sink_of(const TurnSink& host);
    TurnSink& release(const Sink& sink);
    void tell();

    Timing timing_;
    std::function<void(std::string_view)> log_;
    std::string lines_;      // of timing_, to be told
    std::list<Sink> sinks_;  // of the turns that are open
    std::unique_ptr<AgentRuntime> agent_;
};

}  // namespace atl::guest
