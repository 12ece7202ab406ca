#include "bridge/agents/timing.hpp"

#include <cstdlib>
#include <utility>

#include "bridge/guest/command.hpp"

namespace atl::guest {

bool Timing::is_wanted() {
    const char* const value = getenv("ASH_DEBUG_TIMING");
    return value != nullptr && std::string_view(value) == "1";
}

void Timing::begin(std::string_view turn) {
    since_ = Clock::now();
    turn_ = turn;
    had_delta_ = false;
}

void Timing::tell(std::string& log, std::string_view what) {
    if (!is_on_)
        return;
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since_);
    log.append("timing agent=").append(agent_);
    if (!turn_.empty())
        log.append(" turn=").append(turn_);
    log.append(" what=").append(what).append(" ms=").append(std::to_string(took.count())).push_back('\n');
}

void Timing::agent_line(std::string& log) {
    if (is_on_ && !std::exchange(had_line_, true))
        tell(log, "first_line");
}

void Timing::look_at(std::string& log, std::string_view lines) {
    while (is_on_ && !lines.empty()) {
        const std::size_t end = lines.find('\n');
        const std::string name = event_name(lines.substr(0, end));
        lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
        if (name == "ready" || name == "tool_use" || name == "tool_result" || name == "done")
            tell(log, name);
        else if ((name == "text_delta" || name == "thinking_delta") && !std::exchange(had_delta_, true))
            tell(log, "first_delta");
    }
}

}  // namespace atl::guest
