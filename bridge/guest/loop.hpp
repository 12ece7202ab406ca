// The guest's event loop: epoll(7), one thread, timers and deferred calls. One event is taken per
// epoll_wait, so a handler may destroy any other handler: no stale event can be waiting for it. The kernel
// rotates its ready list, so nobody starves. Not here: signals (guest.cpp), children (children.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/plain/unique_fd.hpp"

namespace atl::guest {

/// Something that owns a descriptor and waits for it.
class FdHandler {
  public:
    /// `events` as of epoll_wait(2).
    virtual void on_ready(std::uint32_t events) = 0;

  protected:
    ~FdHandler() = default;
};

using Millis = std::chrono::milliseconds;
/// Zero names no timer.
using TimerId = std::uint64_t;

class Loop {
  public:
    Loop();
    /// False if the kernel refused the epoll descriptor: nothing else may be called then.
    bool valid() const noexcept { return static_cast<bool>(epoll_); }

    /// Waits for `events` (level-triggered). False: no memory or no watches left.
    bool add(int fd, std::uint32_t events, FdHandler& handler);
    void modify(int fd, std::uint32_t events, FdHandler& handler);
    /// Before the descriptor is closed; harmless if it was not added.
    void remove(int fd);

    /// Calls `fire` once after `delay`, from the loop. Never once cancelled.
    TimerId arm(Millis delay, std::function<void()> fire);
    /// Unknown and already fired ids are ignored.
    void cancel(TimerId id);
    /// Calls `run` before the next wait.
    void defer(std::function<void()> run);

    /// Runs until stop(); returns its argument.
    int run();
    void stop(int status);

  private:
    struct Timer {
        TimerId id;
        std::chrono::steady_clock::time_point at;
        std::function<void()> fire;
    };

    int timeout_ms() const;
    void fire_due();
    void run_deferred();

    base::UniqueFd epoll_;
    std::vector<Timer> timers_;  // a handful: a scan is cheaper than an order
    std::vector<std::function<void()>> deferred_;
    TimerId last_id_ = 0;
    int status_ = 0;
    bool stopped_ = false;
};

}  // namespace atl::guest
