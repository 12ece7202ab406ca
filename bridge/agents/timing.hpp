// The times of an agent for `ASH_DEBUG_TIMING=1`: what a turn waited for, as lines of the sandbox's log. The
// server's log has the spans of the same turns. The guest tells those of its own agents (timed_agent.hpp), an
// adapter those of the agent behind it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace atl::guest {

class Timing {
  public:
    using Clock = std::chrono::steady_clock;

    /// By the variable in the environment of this program.
    static bool is_wanted();

    /// The name of the agent is in each line.
    Timing(std::string agent, bool is_on) : agent_(std::move(agent)), is_on_(is_on), since_(Clock::now()) {}

    /// A turn begins: times count from here.
    void begin(std::string_view turn);
    /// Appends a line to `log`.
    void tell(std::string& log, std::string_view what);
    /// Events of the agent, as complete lines.
    void look_at(std::string& log, std::string_view lines);
    /// The first line of the agent.
    void agent_line(std::string& log);

  private:
    std::string agent_;
    bool is_on_;
    Clock::time_point since_;
    std::string turn_;
    bool had_line_ = false;
    bool had_delta_ = false;
};

}  // namespace atl::guest
