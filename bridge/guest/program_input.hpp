// The stdin of a program: InputPipe is the pipe, or the terminal, with what waits for it; InputWindow counts
// what one host connection may send. What the program does not take any more is dropped.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "bridge/frame.hpp"
#include "bridge/guest/loop.hpp"

namespace atl::guest {

class InputPipe final : private FdHandler {
  public:
    /// `passed` is called with bytes that wait no longer, in their order: the program has taken them, or
    /// never will. Also from inside the calls below.
    InputPipe(Loop& loop, std::function<void(std::size_t bytes)> passed)
        : loop_(loop), passed_(std::move(passed)) {}
    ~InputPipe();
    InputPipe(const InputPipe&) = delete;
    InputPipe& operator=(const InputPipe&) = delete;

    /// Takes the nonblocking write end. Without one all is dropped.
    void open(base::UniqueFd pipe) { pipe_ = std::move(pipe); }
    /// False: what is written is dropped.
    bool is_open() const noexcept { return pipe_ && !ending_; }
    void write(std::string_view bytes);
    /// The pipe is closed behind what was written.
    void end();
    void close();
    /// Drops `bytes` of those that wait, behind the first `from`, without a word.
    void drop(std::size_t from, std::size_t bytes);

  private:
    void on_ready(std::uint32_t) override { flush(); }
    void flush();
    void unwatch();

    Loop& loop_;
    std::function<void(std::size_t)> passed_;
    base::UniqueFd pipe_;
    std::string queue_;
    std::size_t sent_bytes_ = 0;  // of queue_
    bool ending_ = false;
    bool waiting_ = false;
};

class InputWindow {
  public:
    /// `grant` is called with bytes that the host may send again: from the loop, once for all that one event
    /// passed on.
    InputWindow(Loop& loop, std::function<void(std::uint32_t bytes)> grant)
        : loop_(loop), grant_(std::move(grant)) {}
    ~InputWindow() { loop_.cancel(timer_); }
    InputWindow(const InputWindow&) = delete;
    InputWindow& operator=(const InputWindow&) = delete;

    /// False: the host has sent more than it was granted.
    bool take(std::size_t bytes);
    /// Some of what was taken waits no longer.
    void passed(std::size_t bytes);

  private:
    Loop& loop_;
    std::function<void(std::uint32_t)> grant_;
    std::size_t granted_bytes_ = base::k_input_window_bytes;
    std::size_t passed_bytes_ = 0;  // and not granted again yet
    TimerId timer_ = 0;
};

}  // namespace atl::guest
