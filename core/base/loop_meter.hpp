// The stall meter of a loop: how late a timer of 1 ms fires, and how much CPU time each handler takes. It
// costs a wake-up a millisecond and a system call a handler (about 1 % of a busy CPU), so a loop has one only
// while somebody wants to know (`--measure-loop`); without it the loop runs as Asio runs it. A handler beyond
// its budget is logged, at most one a second.
#pragma once

#include <boost/asio/io_context.hpp>

#include "core/base/clock.hpp"
#include "core/base/histogram.hpp"
#include "core/base/loop_ticks.hpp"
#include "core/base/task.hpp"

namespace atl::base {

class LoopMeter {
  public:
    /// `loop` must outlive it. Nothing happens before run().
    explicit LoopMeter(asio::io_context& loop);
    LoopMeter(const LoopMeter&) = delete;
    LoopMeter& operator=(const LoopMeter&) = delete;

    /// io_context::run() with the meter on. The CPU time between two handlers, the loop's own, counts with
    /// the one that follows.
    void run();
    /// Ends the ticks, so that run() can return when no other work is left.
    void stop() { ticks_.stop(); }

    const Histogram& lateness() const noexcept { return lateness_; }
    const Histogram& handler_cpu() const noexcept { return handler_cpu_; }

    static constexpr std::chrono::milliseconds k_tick{1};
    /// CPU time that a handler of the reactor may take.
    static constexpr std::chrono::milliseconds k_handler_budget{1};

  private:
    void tell(std::chrono::nanoseconds handler_cpu);

    asio::io_context& loop_;
    LoopTicks ticks_;
    SteadyTime quiet_until_{};  // no further log line before
    Histogram lateness_;
    Histogram handler_cpu_;
};

}  // namespace atl::base
