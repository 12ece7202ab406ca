// How late a loop runs what is due, sampled all the time, ten times a second (loop_ticks.hpp). It costs half
// a thousandth of a CPU, so every server has it; loop_meter.hpp looks closer, and costs more.
#pragma once

#include "core/base/bucket_histogram.hpp"
#include "core/base/loop_ticks.hpp"

namespace atl::base {

class LoopLag {
  public:
    explicit LoopLag(const Executor& executor)
        : ticks_(executor, k_tick, [this](auto late) { lateness_.add(late); }) {}

    void start() { ticks_.start(); }
    /// Ends the ticks, so that the loop can run out of work.
    void stop() { ticks_.stop(); }

    const BucketHistogram& lateness() const noexcept { return lateness_; }

    static constexpr std::chrono::milliseconds k_tick{100};

  private:
    LoopTicks ticks_;
    BucketHistogram lateness_{k_stall_bounds};
};

}  // namespace atl::base
