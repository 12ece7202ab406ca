// One message in one bash: its process group, its output pipe, its end. Output is made valid UTF-8 on the way
// and is read only as fast as the host reads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "bridge/agents/runtime.hpp"
#include "core/base/utf8.hpp"

namespace atl::guest {

class ShellRun final : public FdHandler {
  public:
    using OnEnd = std::function<void(const ShellRun&)>;

    ShellRun(Services& services, std::string turn, TurnSink& sink, OnEnd on_end);
    ~ShellRun();
    ShellRun(const ShellRun&) = delete;
    ShellRun& operator=(const ShellRun&) = delete;

    /// Empty, or why nothing runs: then `on_end` is never called.
    std::string start(std::string_view script);
    /// SIGINT to the process group, then SIGTERM, then SIGKILL, each after k_interrupt_grace.
    void interrupt();
    /// SIGTERM to the process group, then SIGKILL: the sandbox ends.
    void terminate();
    /// The turn has no listener any more: drops the output and interrupts the command.
    void abandon();
    void resume();

    const std::string& turn() const noexcept { return turn_; }
    bool abandoned() const noexcept { return sink_ == nullptr; }
    bool writes_to(const TurnSink& sink) const noexcept { return sink_ == &sink; }
    void on_ready(std::uint32_t events) override;

  private:
    std::string launch(std::string_view script, int output_fd);
    void escalate(int signal_number);
    void listen();
    void pause();
    ssize_t read_some(std::size_t limit_bytes);
    void on_exit(const Ending& ending);
    void drain();
    void report(const Ending& ending);
    void emit(std::string_view text);

    Services& services_;
    std::string turn_;
    TurnSink* sink_;
    OnEnd on_end_;
    pid_t pid_ = -1;
    base::UniqueFd pipe_;
    bool listening_ = false;
    std::unique_ptr<char[]> buffer_;
    base::Utf8Repair repair_;
    TimerId timer_ = 0;
    int last_signal_ = 0;  // the strongest one sent so far
};

}  // namespace atl::guest
