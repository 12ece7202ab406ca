// Each event is a line of the log: the event's name, then key=value pairs in a fixed vocabulary (evt sbx conv
// req pid err dur_ms bytes turn gen). Text that a guest or a client wrote goes through `quoted`: escaped and
// cut. Never log a secret. spdlog carries the lines.
#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace atl::base {

/// A log line in the making: LogLine(evt::sandbox_ready).field("sbx", id).info();
class LogLine {
  public:
    explicit LogLine(std::string_view event);

    /// A value that the server made itself; quoted only if it holds spaces.
    LogLine& field(std::string_view key, std::string_view value);
    LogLine& field(std::string_view key, std::int64_t value);
    /// Hostile text: control characters and non-ASCII bytes escaped, cut at 200 bytes.
    LogLine& quoted(std::string_view key, std::string_view hostile);

    void debug() const { spdlog::debug("{}", text_); }
    void info() const { spdlog::info("{}", text_); }
    void warn() const { spdlog::warn("{}", text_); }
    void error() const { spdlog::error("{}", text_); }
    const std::string& text() const noexcept { return text_; }

  private:
    std::string text_;
};

/// True if debug lines are wanted: ask before making one for every turn or request.
inline bool logs_debug() {
    return spdlog::should_log(spdlog::level::debug);
}

/// `hostile` with control characters and non-ASCII bytes as \xNN, at most `limit_bytes` of input.
std::string escaped(std::string_view hostile, std::size_t limit_bytes = 200);

}  // namespace atl::base
