#include "bridge/adapters/timing.hpp"

#include <utility>

namespace atl::adapter {

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
    constexpr std::string_view k_begin = "{\"ev\":\"";
    while (is_on_ && !lines.empty()) {
        const std::size_t end = lines.find('\n');
        std::string_view name = lines.substr(0, end);
        lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
        name.remove_prefix(name.starts_with(k_begin) ? k_begin.size() : 0);
        name = name.substr(0, name.find('"'));
        if (name == "ready" || name == "tool_use" || name == "tool_result" || name == "done")
            tell(log, name);
        else if ((name == "text_delta" || name == "thinking_delta") && !std::exchange(had_delta_, true))
            tell(log, "first_delta");
    }
}

}  // namespace atl::adapter
