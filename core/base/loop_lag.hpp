// How late a loop runs what is due: a timer that samples it all the time, ten times a second. It costs half a
// thousandth of a CPU, so every server has it; loop_meter.hpp looks closer, and costs more. A
// tick is due a tick after the last one was due, not after it came: one long stall counts as the many late
// ticks that it is, so the share of late samples is the share of time in which the loop was late.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>

#include "core/base/bucket_histogram.hpp"
#include "core/base/clock.hpp"
#include "core/base/task.hpp"

namespace atl::base {

class LoopLag {
  public:
    explicit LoopLag(const Executor& executor) : timer_(executor) {}
    LoopLag(const LoopLag&) = delete;
    LoopLag& operator=(const LoopLag&) = delete;

    void start();
    /// Ends the ticks, so that the loop can run out of work.
    void stop();

    const BucketHistogram& lateness() const noexcept { return lateness_; }

    static constexpr std::chrono::milliseconds k_tick{100};

  private:
    void await_tick();

    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                               Executor>
        timer_;
    bool stopped_ = false;
    BucketHistogram lateness_{k_stall_bounds};
};

}  // namespace atl::base
