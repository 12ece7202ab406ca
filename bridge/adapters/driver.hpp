// Runs an agent by its protocol: the guest's lines on stdin and stdout, the agent's on its own. One thread;
// only a write to the guest waits, as that of any agent does; one to the log never.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "bridge/adapters/agent_protocol.hpp"
#include "bridge/adapters/agent_state.hpp"
#include "bridge/adapters/recipe.hpp"
#include "bridge/agents/agent_input.hpp"
#include "bridge/agents/line_splitter.hpp"
#include "bridge/agents/timing.hpp"
#include "bridge/guest/children.hpp"
#include "bridge/guest/loop.hpp"

namespace atl::adapter {

class Driver {
  public:
    /// `directory`: where the agent works.
    Driver(Recipe recipe, std::string directory, AgentState state);
    ~Driver();
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    /// Until the agent has ended. Returns the exit status; an agent that a signal killed ends this process
    /// with the same signal.
    int run();

  private:
    struct Watch final : guest::FdHandler {
        explicit Watch(std::function<void()> run) : run_(std::move(run)) {}
        void on_ready(std::uint32_t) override { run_(); }
        std::function<void()> run_;
    };
    struct Lines final : guest::LineSplitter::Sink {
        using Take = std::function<void(std::string_view)>;
        Lines(Take line, Take long_line, Take long_line_end)
            : line_(std::move(line)),
              long_line_(std::move(long_line)),
              long_line_end_(std::move(long_line_end)) {}
        void on_line(std::string_view line) override { line_(line); }
        void on_long_line(std::string_view head) override { long_line_(head); }
        void on_long_line_end(std::string_view outline) override { long_line_end_(outline); }
        Take line_;
        Take long_line_;
        Take long_line_end_;
    };

    bool set_up();
    void begin(std::string session);
    void on_host();
    void on_host_line(std::string_view line);
    void on_agent();
    void on_errors();
    void on_signal();
    void on_exit(const guest::Ending& ending);
    void drain();
    void pump();
    void stop();
    void end(int status);
    void end_unready();
    void fail(std::string_view why);
    void remember(std::string_view text);
    void log(std::string_view lines);
    void tell_end(std::string_view why);

    Recipe recipe_;
    std::string directory_;
    AgentState state_;
    guest::Timing timing_;
    guest::Loop loop_;
    guest::Children children_;
    Wishes wishes_;
    std::unique_ptr<AgentProtocol> protocol_;
    std::string session_;  // that the agent was started with
    guest::AgentInput input_;
    base::UniqueFd output_;
    base::UniqueFd errors_;
    std::string last_words_;  // the end of the log since the agent started or the turn began
    std::string times_;       // lines of timing_ for the log, which are no words of the agent
    base::UniqueFd signals_;
    pid_t pid_ = -1;
    bool confirmed_ = false;  // the session, to `state_`
    bool stopping_ = false;
    bool over_ = false;
    Watch host_watch_;
    Watch agent_watch_;
    Watch errors_watch_;
    Watch signal_watch_;
    Lines host_lines_;
    Lines agent_lines_;
    guest::LineSplitter host_splitter_;
    std::unique_ptr<guest::LineSplitter> agent_splitter_;
};

}  // namespace atl::adapter
