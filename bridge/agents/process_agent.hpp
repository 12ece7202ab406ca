// A configured program as the agent: it reads commands as JSON lines on stdin and writes events as JSON lines
// on stdout. Started once; its end is final, and that of its process group. What has left the group stays, as
// a server that it started for its user does; but a start that is given up ends all of its descendants, too,
// unless the agent ended by itself (the adapters end those as well). Lines
// are relayed as they came, only their `ev` is looked at. The pipe to it is agent_input.hpp, the cutting into
// lines line_splitter.hpp.
#pragma once

#include <memory>

#include "bridge/agents/agent_input.hpp"
#include "bridge/agents/line_splitter.hpp"
#include "bridge/agents/runtime.hpp"

namespace atl::guest {

class ProcessAgent final : public AgentRuntime, private FdHandler, private LineSplitter::Sink {
  public:
    /// `resume`: the line that it gets before all others, without its end; empty: none.
    ProcessAgent(Services& services, std::vector<std::string> argv, std::string resume);
    ~ProcessAgent() override;

    void start(OnReady on_ready, OnExit on_exit) override;
    Begun begin(const TurnRequest& request, TurnSink& sink) override;
    void resume(TurnSink& sink) override;
    void abandon(TurnSink& sink) override;
    bool interrupt(std::string_view turn) override;
    bool permit(std::string_view turn, std::string_view line) override;
    void stop(std::function<void()> on_stopped) override;

  private:
    enum class State : std::uint8_t { starting, ready, ended };

    void on_ready(std::uint32_t events) override;
    void on_line(std::string_view line) override;
    void on_long_line(std::string_view head) override;
    void on_long_line_end(std::string_view outline) override;

    void open_turn(const TurnRequest& request, TurnSink& sink);
    std::string launch();
    ssize_t read_some(std::size_t limit_bytes);
    void on_end_of_output();
    void on_exit(const Ending& ending);
    void drain();
    void became_ready();
    void turn_line(std::string_view line);
    void flush_turn();
    void finish_turn();
    void fail(std::string reason);
    void end_turn_as_crashed();
    void refuse_turn(std::string_view code, std::string_view message);
    void signal_group(int signal_number);
    void kill_all();
    void listen();
    void pause();

    Services& services_;
    std::vector<std::string> argv_;
    std::string resume_;  // until it is ready
    State state_ = State::starting;
    pid_t pid_ = -1;
    AgentInput input_;
    base::UniqueFd output_;
    bool listening_ = false;
    LineSplitter splitter_;

    std::string turn_;
    TurnSink* sink_ = nullptr;          // of the turn that runs
    bool told_error_ = false;           // its last event was an error
    std::string relay_;                 // its lines of the current read
    std::size_t unfinished_turns_ = 0;  // abandoned turns whose `done` is still to come
    std::size_t dropped_lines_ = 0;     // written outside a turn, since the last turn

    std::string end_reason_;  // set once the agent has ended or was given up; follows "the agent"
    TimerId timer_ = 0;
    OnReady on_started_;
    OnExit on_ended_;
    std::function<void()> on_stopped_;
};

}  // namespace atl::guest
