// A timer that tells how late a loop fires it. A tick is due a tick after the last one was due, not after it
// came: one long stall counts as the many late ticks that it is, so the share of late ones is the share of
// time in which the loop was late.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#include <functional>

#include "core/base/clock.hpp"
#include "core/base/task.hpp"

namespace atl::base {

class LoopTicks {
  public:
    using OnTick = std::function<void(std::chrono::steady_clock::duration late)>;

    /// `on_tick` is called for each tick, from the loop.
    LoopTicks(const Executor& executor, std::chrono::milliseconds tick, OnTick on_tick);
    LoopTicks(const LoopTicks&) = delete;
    LoopTicks& operator=(const LoopTicks&) = delete;

    void start();
    /// Ends the ticks, so that the loop can run out of work.
    void stop();

  private:
    void await();

    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                               Executor>
        timer_;
    std::chrono::milliseconds tick_;
    OnTick on_tick_;
    bool stopped_ = false;
};

}  // namespace atl::base
