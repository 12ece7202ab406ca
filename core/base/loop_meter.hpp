// The stall meter of a loop: how late it runs a timer that is due ten times a second. That costs half a
// thousandth of a CPU, so every server has it. With Detail::handlers (`--measure-loop`) the timer is due a
// thousand times a second, and the CPU time of each handler is measured: a wake-up a millisecond and a system
// call a handler, about 1 % of a busy CPU. A handler beyond its budget is then logged, at most one a second.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>

#include "core/base/clock.hpp"
#include "core/base/histogram.hpp"
#include "core/base/task.hpp"

namespace atl::base {

class LoopMeter {
  public:
    enum class Detail : std::uint8_t { stalls, handlers };

    /// `loop` must outlive it. Nothing happens before run().
    LoopMeter(asio::io_context& loop, Detail detail);
    LoopMeter(const LoopMeter&) = delete;
    LoopMeter& operator=(const LoopMeter&) = delete;

    /// io_context::run() with the meter on. The CPU time between two handlers, the loop's own, counts with
    /// the one that follows.
    void run();
    /// Ends the ticks, so that run() can return when no other work is left.
    void stop();

    /// How late ticks came. A tick is due a tick after the last one was due, not after it came: one long
    /// stall counts as the many late ticks that it is, so the share of late ones is the share of time in
    /// which the loop was late. In k_stall_bounds.
    const Histogram& stalls() const noexcept { return stalls_; }
    /// The same for quantiles; with Detail::handlers only.
    const Histogram& lateness() const noexcept { return lateness_; }
    /// With Detail::handlers only.
    const Histogram& handler_cpu() const noexcept { return handler_cpu_; }

    static constexpr std::chrono::milliseconds k_tick{100};
    static constexpr std::chrono::milliseconds k_detailed_tick{1};
    /// CPU time that a handler of the reactor may take.
    static constexpr std::chrono::milliseconds k_handler_budget{1};

  private:
    void await_tick();
    void run_measured();
    void log_slow(std::chrono::nanoseconds handler_cpu);

    asio::io_context& loop_;
    Detail detail_;
    std::chrono::milliseconds tick_;
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                               Executor>
        timer_;
    bool stopped_ = false;
    SteadyTime quiet_until_{};  // no further log line before
    Histogram stalls_{k_stall_bounds};
    Histogram lateness_;
    Histogram handler_cpu_;
};

}  // namespace atl::base
