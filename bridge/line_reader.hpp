// Lines of a stream, each bounded. LineCutter finds them and does no I/O; LineReader puts it on a Stream and
// hands out a bounded number of lines a handler.
#pragma once

#include <string_view>

#include "bridge/stream.hpp"

namespace atl::bridge {

/// Lines that one handler hands out; then others have their turn.
inline constexpr std::size_t k_lines_per_handler = 64;

/// Finds the end of each line in bytes that arrive in pieces. Looks at no byte twice.
class LineCutter {
  public:
    explicit LineCutter(std::size_t max_line_bytes) noexcept : max_line_bytes_(max_line_bytes) {}

    enum class Found : std::uint8_t { line, part, too_long };
    struct Cut {
        Found found;
        std::string_view line;  // of a line: without its newline
    };
    /// `bytes` begins at the start of a line. After `part` the next call begins with the same bytes and has
    /// more behind them.
    Cut next(std::string_view bytes) noexcept {
        const std::size_t newline = bytes.find('\n', searched_bytes_);
        const std::string_view line = bytes.substr(0, newline);
        if (line.size() > max_line_bytes_)
            return {Found::too_long, {}};
        searched_bytes_ = newline == std::string_view::npos ? bytes.size() : 0;
        return {newline == std::string_view::npos ? Found::part : Found::line, line};
    }

  private:
    std::size_t max_line_bytes_;
    std::size_t searched_bytes_ = 0;  // of the line that has begun: no newline there
};

class LineReader : public Stream::Reader {
  public:
    explicit LineReader(std::size_t max_line_bytes) noexcept : cutter_(max_line_bytes) {}

  protected:
    ~LineReader() = default;
    /// A line without its newline, valid during the call. May destroy this, after it closed or released the
    /// stream.
    virtual void on_line(std::string_view line) = 0;

  private:
    Stream::Taken on_bytes(Stream& stream, std::string_view bytes) final;

    LineCutter cutter_;
};

}  // namespace atl::bridge
