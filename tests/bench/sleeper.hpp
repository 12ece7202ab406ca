// The floor of what a loop's timer can reach: a process that only waits for the next millisecond.
#pragma once

#include "core/base/histogram.hpp"
#include "tests/bench/sample.hpp"

namespace atl::bench {

/// A moment that several processes agree on.
struct Until {
    explicit Until(double ms) : end(Clock::now() + std::chrono::milliseconds(static_cast<int>(ms))) {}
    bool passed() const { return Clock::now() >= end; }
    Clock::time_point end;
};

/// Waits for each millisecond and adds how late it was, in the server's way of counting
/// (core/base/loop_meter.hpp).
void sleep_only(base::Histogram& lateness, const Until& until);

}  // namespace atl::bench
