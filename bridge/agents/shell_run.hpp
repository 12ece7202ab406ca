// The run of a message in a bash: process group, two output pipes, end. Output is made valid UTF-8 on
// the way and is read only as fast as the host reads; the order of the two streams is that in which they
// became readable; delta_gather.hpp says how it becomes events. The directory and the variables of the bash,
// at its begin and at its end: shell_state.hpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "bridge/agents/delta_gather.hpp"
#include "bridge/agents/runtime.hpp"
#include "bridge/agents/shell_state.hpp"
#include "bridge/guest/process_tree.hpp"
#include "core/plain/utf8.hpp"

namespace atl::guest {

struct SpawnRequest;

class ShellRun final {
  public:
    /// `left` is what the message leaves to the next one, none where that is not known.
    using OnEnd = std::function<void(const ShellRun&, std::optional<ShellState> left)>;

    ShellRun(Services& services, std::string turn, TurnSink& sink, OnEnd on_end);
    ~ShellRun();
    ShellRun(const ShellRun&) = delete;
    ShellRun& operator=(const ShellRun&) = delete;

    /// Why nothing runs; an empty `error`: it does.
    struct Failure {
        std::string error;
        int error_number = 0;  // EAGAIN: there is no room for another process (fork(2))
    };
    /// After a failure `on_end` is never called. Where the directory of `state` is gone, the message runs in
    /// the workspace and its output begins with a note.
    Failure start(std::string_view script, const ShellState& state);
    /// SIGINT to the command and all that it started (process_tree.hpp), SIGTERM after k_interrupt_grace,
    /// then SIGKILL after k_kill_grace; SIGKILL to what is left of it when the command has ended.
    void interrupt();
    /// SIGTERM to the same, then SIGKILL: the sandbox ends.
    void terminate();
    /// The turn has no listener any more: drops the output and interrupts the command.
    void abandon();
    void resume();

    const std::string& turn() const noexcept { return turn_; }
    bool abandoned() const noexcept { return sink_ == nullptr; }
    bool writes_to(const TurnSink& sink) const noexcept { return sink_ == &sink; }

  private:
    /// An output stream of the bash.
    struct Output final : FdHandler {
        Output(ShellRun& in_run, std::string_view in_stream) : run(in_run), stream(in_stream) {}
        void on_ready(std::uint32_t /*events*/) override { run.on_output(*this); }
        ShellRun& run;
        std::string_view stream;  // "stdout" or "stderr"
        base::UniqueFd pipe;
        bool listening = false;
        base::Utf8Repair repair;
    };

    Failure launch(std::string_view script, const ShellState& state, int output_fd, int error_fd);
    pid_t spawn_message(SpawnRequest& request, std::string_view script);
    void escalate(int signal_number);
    void listen();
    void pause();
    void pause(Output& output);
    void on_output(Output& output);
    ssize_t read_some(Output& output, std::size_t limit_bytes);
    void on_exit(const Ending& ending);
    void drain(Output& output);
    std::optional<ShellState> left_state();
    void report(const Ending& ending);
    void emit(std::string_view stream, std::string_view text);
    void arm_gather();

    Services& services_;
    std::string turn_;
    TurnSink* sink_;
    OnEnd on_end_;
    pid_t pid_ = -1;
    Output output_{*this, "stdout"};
    Output errors_{*this, "stderr"};
    std::unique_ptr<char[]> buffer_;
    std::unique_ptr<StateFile> state_file_;
    TimerId timer_ = 0;
    DeltaGather gather_;
    TimerId gather_timer_ = 0;
    ProcessTree tree_;
    int last_signal_ = 0;  // the strongest one sent so far
};

}  // namespace atl::guest
