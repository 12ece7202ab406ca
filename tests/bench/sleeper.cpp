#include "tests/bench/sleeper.hpp"

#include <poll.h>

#include <algorithm>

#include "core/base/loop_meter.hpp"

namespace atl::bench {

double Lateness::percentile(double share) const {
    Samples samples;
    for (std::size_t i = 0; i < count_; ++i)
        samples.add(ms_[i]);
    return samples.percentile(share);
}

void sleep_only(Lateness& lateness, const Until& until) {
    for (auto due = Clock::now(); !until.passed();) {
        due += base::LoopMeter::k_detailed_tick;
        const auto left = std::max(due - Clock::now(), Clock::duration::zero());
        const timespec rest{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(left).count()};
        ::ppoll(nullptr, 0, &rest, nullptr);
        const auto now = Clock::now();
        for (; due <= now; due += base::LoopMeter::k_detailed_tick)
            lateness.add(std::chrono::duration<double, std::milli>(now - due).count());
        due -= base::LoopMeter::k_detailed_tick;
    }
}

}  // namespace atl::bench
