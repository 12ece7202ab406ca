// The pipe to the stdin of a program. Holds at most what was granted to the host, and grants again what it
// has passed on. What the program does not take any more is dropped.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "bridge/frame.hpp"
#include "bridge/guest/loop.hpp"

namespace atl::guest {

class ExecInput final : private FdHandler {
  public:
    /// `grant` is called with bytes that the host may send again, never from inside write().
    ExecInput(Loop& loop, std::function<void(std::uint32_t bytes)> grant)
        : loop_(loop), grant_(std::move(grant)) {}
    ~ExecInput() { close(); }
    ExecInput(const ExecInput&) = delete;
    ExecInput& operator=(const ExecInput&) = delete;

    /// Takes the nonblocking write end. Without one all is dropped.
    void open(base::UniqueFd pipe) { pipe_ = std::move(pipe); }
    /// False: more than was granted.
    bool write(std::string_view bytes);
    /// The pipe is closed behind what was written.
    void end();
    void close();

  private:
    void on_ready(std::uint32_t events) override;
    void flush();
    void passed_on(std::size_t bytes);

    Loop& loop_;
    std::function<void(std::uint32_t)> grant_;
    base::UniqueFd pipe_;
    std::string queue_;
    std::size_t sent_bytes_ = 0;  // of queue_
    std::size_t granted_bytes_ = base::k_input_window_bytes;
    std::size_t passed_bytes_ = 0;  // and not granted again yet
    bool ending_ = false;
    bool waiting_ = false;
    TimerId grant_timer_ = 0;
};

}  // namespace atl::guest
