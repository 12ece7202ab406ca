// A descriptor that may have no reader (a full pipe, a stopped terminal, a journal that hangs), written
// without ever waiting: the loop's thread logs, and must not stand still because nobody reads its log.
// Invariants: a text is written whole and in order, or not at all; O_NONBLOCK of the descriptor is not
// changed, since it is shared with other programs. Not here: the form of a line (log.hpp). Writes to a
// regular file are taken to end at once.
#pragma once

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/plain/unique_fd.hpp"

namespace atl::base {

class LogOutput {
  public:
    /// `fd`, as STDERR_FILENO, stays its owner's.
    explicit LogOutput(int fd);

    /// False: it was dropped, since it does not fit now or the other end is gone. The rest of a text that
    /// fits in part goes before the next text.
    bool write(std::string_view text);
    bool is_terminal() const noexcept { return is_terminal_; }

  private:
    enum class Kind : std::uint8_t {
        plain,     // regular files
        socket,    // the wish not to wait goes with the call (send(2))
        reopened,  // a pipe or terminal, by a description of its own with O_NONBLOCK
        polled,    // the same where it cannot be opened again: see write_polled()
    };

    bool push(std::string& rest);
    std::string_view::size_type write_some(std::string_view text);

    int fd_;
    Kind kind_ = Kind::plain;
    bool is_terminal_ = false;
    UniqueFd own_;
    std::string rest_;
};

/// spdlog's way to it. Lines that do not fit are dropped; the next line that fits comes behind a line with
/// their number (evt::log_dropped).
class LogSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
  public:
    explicit LogSink(int fd) : output_(fd) {}

  private:
    void sink_it_(const spdlog::details::log_msg& message) override;
    void flush_() override {}
    std::string formatted(const spdlog::details::log_msg& message);

    LogOutput output_;
    std::uint64_t dropped_ = 0;  // since the last line that fit
};

/// Lines that all sinks of this process have dropped.
std::uint64_t dropped_log_lines() noexcept;

}  // namespace atl::base
