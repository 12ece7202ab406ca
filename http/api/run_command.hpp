// The tool run_command: a command of a model, run as exec runs it (exec_run.hpp), and told as the result of a
// tool. It is a call like those of the guest, so that whoever makes calls of tools can hold it. Of stdout and
// of stderr the beginning and the end are kept. Not here: the other tools, which the guest runs.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/shares.hpp"
#include "core/sandbox/calls.hpp"
#include "core/sandbox/tool_settings.hpp"
#include "http/api/exec_run.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

/// The beginning and the end of output that may be long.
class HeadAndTail {
  public:
    static constexpr std::size_t k_head_bytes = 8UL * 1024;
    static constexpr std::size_t k_tail_bytes = 16UL * 1024;
    /// The most that one keeps.
    static constexpr std::size_t k_most_bytes = k_head_bytes + 3 * k_tail_bytes;

    void take(std::string_view bytes);
    bool is_cut() const noexcept { return total_bytes_ > head_.size() + tail().size(); }
    /// All of it; or whole lines of both ends, as far as they have some, with a line between them that tells
    /// how many bytes are left out. What is not UTF-8 is U+FFFD.
    std::string text() const;
    /// The last line that is not empty; empty while there is none.
    std::string_view last_line() const noexcept;

  private:
    std::string_view tail() const noexcept;

    std::string head_;
    std::string tail_;  // its last k_tail_bytes count
    std::uint64_t total_bytes_ = 0;
};

struct CommandForm {
    std::string command;
    std::string directory;  // inside the workspace; empty: the workspace
    std::string description;
    std::chrono::milliseconds timeout = base::k_default_exec_timeout;
    std::string context;  // of the call: the text of an object; empty: none
};

/// The text of the result object of a call of the tool where it is off. `context`: that of the call.
std::string command_off_json(std::string_view context);

/// Reads the arguments of a call into `form`, whose context is set. The text of the result object if the call
/// is refused: the tool is off, or the arguments are not its own.
std::optional<std::string> read_command(const Json& args, const sandbox::ToolSettings& settings,
                                        CommandForm& form);

class RunCommand final : public sandbox::Call, private ExecSink {
  public:
    /// Bytes of the budget `exec` for one.
    static constexpr std::size_t k_kept_bytes = 2 * HeadAndTail::k_most_bytes;

    /// Starts it. `share` has k_kept_bytes. The caller holds the lease of `operations`, and destroys this
    /// when that ends; `observer`, `clock` and `timers` outlive this. CallObserver::on_failed() is called for
    /// what is no result of a tool: capacity, sandbox_failed, bridge_failed, deadline_exceeded.
    RunCommand(CommandForm form, base::Share share, sandbox::Operations& operations,
               sandbox::CallObserver& observer, const base::Clock& clock, base::Timers& timers);
    ~RunCommand() override;
    RunCommand(const RunCommand&) = delete;
    RunCommand& operator=(const RunCommand&) = delete;

  private:
    // It has no input, and its bytes are not many.
    std::size_t write(std::string_view) override { return 0; }
    void end_input() override {}
    void resume() override {}
    void take(sandbox::OutputKind kind, std::string_view bytes) override;

    void tell_progress_later();
    void look_at_end();
    void tell_end();
    std::string result_json(const ExecEnd& end) const;

    const CommandForm form_;
    const base::Share share_;
    sandbox::CallObserver& observer_;
    base::Timers& timers_;
    std::array<HeadAndTail, 2> outputs_;
    sandbox::OutputKind latest_ = sandbox::OutputKind::standard;
    base::TimerId timer_ = 0;
    bool is_ending_ = false;
    /// Null inside once this is destroyed.
    std::shared_ptr<RunCommand*> self_ = std::make_shared<RunCommand*>(this);
    ExecRun run_;
};

}  // namespace atl::http
