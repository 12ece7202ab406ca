// The buffered form of an exec: output up to a bound, and the JSON that tells all of it at the end. A long
// answer is made while it is sent, so that no handler escapes megabytes at once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/shares.hpp"
#include "core/plain/utf8.hpp"
#include "http/api/exec_run.hpp"
#include "http/wire/body_source.hpp"

namespace atl::http {

/// How many bytes at the end of `text` begin a character that is not complete: at most three.
std::size_t open_character(std::string_view text) noexcept;

/// How many bytes an exec that collects up to `limit_bytes` of stdout, and of stderr, takes before it starts.
constexpr std::size_t reserved_output_bytes(std::size_t limit_bytes) noexcept {
    return 2 * std::min(limit_bytes, base::k_exec_reserved_bytes);
}

/// Blocks that no output has any more. Other outputs take them, for all but their first block; the kernel
/// gets back a block a millisecond. All blocks of a long output at once, and new ones for the next, would
/// hold the loop for tens of milliseconds.
class SpareBlocks {
  public:
    /// `timers` must outlive this.
    explicit SpareBlocks(base::Timers& timers) : timers_(timers) {}
    ~SpareBlocks() { timers_.cancel(timer_); }
    SpareBlocks(const SpareBlocks&) = delete;
    SpareBlocks& operator=(const SpareBlocks&) = delete;

    /// An empty string, which may have room.
    std::string take();
    void give(std::vector<std::string> blocks);
    std::size_t count() const noexcept { return blocks_.size(); }

  private:
    void shrink();

    base::Timers& timers_;
    std::vector<std::string> blocks_;
    base::TimerId timer_ = 0;
};

/// Bytes in blocks, which are not copied when more come: a long string would hold the loop for that.
class OutputBlocks {
  public:
    OutputBlocks() = default;
    ~OutputBlocks();
    OutputBlocks(const OutputBlocks&) = delete;
    OutputBlocks& operator=(const OutputBlocks&) = delete;

    /// Takes its blocks from there, and gives them there in the end.
    void use(std::shared_ptr<SpareBlocks> spare) { spare_ = std::move(spare); }
    void append(std::string_view bytes);
    std::size_t size() const noexcept { return size_; }
    /// The bytes from `at` on, up to `most` of them and to the end of their block.
    std::string_view piece(std::size_t at, std::size_t most) const;
    /// Precondition: `size` is at most size().
    void truncate(std::size_t size);

  private:
    std::vector<std::string> blocks_;  // all but the last one are full
    std::size_t size_ = 0;
    std::shared_ptr<SpareBlocks> spare_;
};

/// Keeps the first bytes of stdout and of stderr. It drops bytes behind the bound, and bytes that find no
/// room in the budget, each with all that follows in the same stream.
class ExecCollector final : public ExecSink {
  public:
    /// `share` is of the budget `exec` and has reserved_output_bytes(limit_bytes).
    ExecCollector(base::Share share, std::size_t limit_bytes, const std::shared_ptr<SpareBlocks>& spare = {})
        : share_(std::move(share)), limit_bytes_(limit_bytes) {
        for (Output& output : outputs_)
            output.bytes.use(spare);
    }

    void take(sandbox::OutputKind kind, std::string_view bytes) override;

    struct Output {
        OutputBlocks bytes;
        bool is_truncated = false;
        bool is_text = true;  // so far
        base::Utf8Check check;
    };
    /// The program has ended: a character that the bound cut is left out, and what is not UTF-8 is no text.
    void close();
    const Output& output(sandbox::OutputKind kind) const noexcept {
        return outputs_[static_cast<std::size_t>(kind)];
    }
    /// The error of the budget that dropped output first; none: it dropped nothing.
    std::optional<base::Errc> truncated_by() const noexcept { return truncated_by_; }

  private:
    base::Share share_;
    std::size_t limit_bytes_;
    std::array<Output, 2> outputs_;
    std::optional<base::Errc> truncated_by_;
};

class ExecAnswer final : public BodySource {
  public:
    /// `collector` is closed.
    ExecAnswer(const ExecEnd& end, std::unique_ptr<ExecCollector> collector)
        : end_(end), collector_(std::move(collector)) {}

    /// Appends the next part of the JSON; false: there is none.
    bool next(std::string& out);
    base::Task<base::Result<std::size_t>> async_read_some(std::span<char> room) override;

  private:
    enum class Part : std::uint8_t { head, output, error, tail, none };

    void write_head(std::string& out) const;
    void write_tail(std::string& out) const;
    void write_output(std::string& out, sandbox::OutputKind kind, std::string_view name);

    ExecEnd end_;
    std::unique_ptr<ExecCollector> collector_;
    Part part_ = Part::head;
    std::size_t written_bytes_ = 0;  // of the part's output
    std::string piece_;
    std::size_t sent_bytes_ = 0;  // of piece_
};

/// Writes `"exitCode":…,"signal":…,"timedOut":…`.
void write_exit_members(std::string& out, const sandbox::RunExit& exit);

}  // namespace atl::http
