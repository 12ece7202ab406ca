// The buffered form of an exec: output up to a bound, and the JSON that tells all of it at the end. A long
// answer is made while it is sent, so that no handler escapes megabytes at once.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/plain/utf8.hpp"
#include "http/api/exec_run.hpp"
#include "http/wire/body_source.hpp"

namespace atl::http {

/// How many bytes at the end of `text` begin a character that is not complete: at most three.
std::size_t open_character(std::string_view text) noexcept;

/// Memory for input that waits for its program and for output that is kept, of all execs together. A sandbox
/// has a bound of its own, so that the others have room whatever its programs write. Must outlive who holds
/// some of it.
class OutputBudget {
  public:
    OutputBudget(std::size_t limit_bytes, std::size_t sandbox_limit_bytes)
        : left_bytes_(limit_bytes), sandbox_limit_bytes_(sandbox_limit_bytes) {}
    /// How many of `bytes` there is room for; they are taken.
    std::size_t take(const std::string& sandbox_id, std::size_t bytes);
    void give_back(const std::string& sandbox_id, std::size_t bytes);
    /// Takes all of `bytes`, until the result is destroyed. Null: there is no room for them.
    std::shared_ptr<void> hold(const std::string& sandbox_id, std::size_t bytes);

  private:
    std::size_t left_bytes_;
    std::size_t sandbox_limit_bytes_;
    std::unordered_map<std::string, std::size_t> held_bytes_;  // of sandboxes that hold some
};

/// Keeps the first bytes of stdout and of stderr; what comes behind the bound, or finds no room in the
/// budget, is dropped with all that follows it.
class ExecCollector final : public ExecSink {
  public:
    /// `limit_bytes` of each.
    ExecCollector(OutputBudget& budget, std::string sandbox_id, std::size_t limit_bytes)
        : budget_(budget), sandbox_id_(std::move(sandbox_id)), limit_bytes_(limit_bytes) {}
    ~ExecCollector() override { budget_.give_back(sandbox_id_, held_bytes_); }
    ExecCollector(const ExecCollector&) = delete;
    ExecCollector& operator=(const ExecCollector&) = delete;

    void take(sandbox::OutputKind kind, std::string_view bytes) override;

    struct Output {
        std::string bytes;
        bool is_truncated = false;
        bool is_text = true;  // so far
        base::Utf8Check check;
    };
    /// The program has ended: a character that the bound cut is left out, and what is not UTF-8 is no text.
    void close();
    const Output& output(sandbox::OutputKind kind) const noexcept {
        return outputs_[static_cast<std::size_t>(kind)];
    }

  private:
    OutputBudget& budget_;
    std::string sandbox_id_;
    std::size_t limit_bytes_;
    std::size_t held_bytes_ = 0;  // of the budget
    std::array<Output, 2> outputs_;
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
