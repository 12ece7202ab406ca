// The floor of what a loop's timer can reach: a process that only waits for the next millisecond.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "tests/bench/sample.hpp"

namespace atl::bench {

/// A moment that several processes agree on.
struct Until {
    explicit Until(double ms) : end(Clock::now() + std::chrono::milliseconds(static_cast<int>(ms))) {}
    bool passed() const { return Clock::now() >= end; }
    Clock::time_point end;
};

/// How late each millisecond came, of the first 400 s; one process adds while others read (shared.hpp).
class Lateness {
  public:
    void add(double ms) {
        const std::size_t at = count_;
        if (at < ms_.size()) {
            ms_[at] = static_cast<float>(ms);
            count_ = at + 1;
        }
    }
    /// Counts as Samples::percentile() does. Throws if there is no value yet.
    double percentile(double share) const;

  private:
    std::array<float, 400'000> ms_;
    std::atomic<std::size_t> count_{0};
};

/// Waits for each millisecond and adds how late it was, in the server's way of counting
/// (core/base/loop_meter.hpp).
void sleep_only(Lateness& lateness, const Until& until);

}  // namespace atl::bench
