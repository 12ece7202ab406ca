#include "tests/bench/sleeper.hpp"

#include <poll.h>

#include <algorithm>

#include "core/base/loop_meter.hpp"

namespace atl::bench {

void sleep_only(base::Histogram& lateness, const Until& until) {
    for (auto due = Clock::now(); !until.passed();) {
        due += base::LoopMeter::k_tick;
        const auto left = std::max(due - Clock::now(), Clock::duration::zero());
        const timespec rest{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(left).count()};
        ::ppoll(nullptr, 0, &rest, nullptr);
        const auto now = Clock::now();
        for (; due <= now; due += base::LoopMeter::k_tick)
            lateness.add(now - due);
        due -= base::LoopMeter::k_tick;
    }
}

}  // namespace atl::bench
