// How many durations came up to each of a few fixed bounds, and their sum: what a Prometheus histogram tells.
// Exact at its bounds, which a quantile of the sketch in histogram.hpp is not. A scan of a dozen numbers a
// sample, no allocation after construction. Not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace atl::base {

class BucketHistogram {
  public:
    using Micros = std::chrono::microseconds;

    /// `upper_bounds` ascend, and outlive the histogram; a sample that equals a bound is within it.
    explicit BucketHistogram(std::span<const Micros> upper_bounds);

    /// Negative durations count as zero.
    void add(std::chrono::nanoseconds duration) noexcept;

    std::span<const Micros> upper_bounds() const noexcept { return upper_bounds_; }
    /// Samples above the bound before and up to this one; the last is of those above all bounds.
    std::span<const std::uint64_t> counts() const noexcept { return counts_; }
    std::uint64_t count() const noexcept { return count_; }
    std::chrono::nanoseconds sum() const noexcept { return sum_; }

  private:
    std::span<const Micros> upper_bounds_;
    std::vector<std::uint64_t> counts_;
    std::uint64_t count_ = 0;
    std::chrono::nanoseconds sum_{};
};

/// Of what should take milliseconds: starts, creates.
inline constexpr std::array<BucketHistogram::Micros, 12> k_latency_bounds{
    {BucketHistogram::Micros(1'000), BucketHistogram::Micros(2'500), BucketHistogram::Micros(5'000),
     BucketHistogram::Micros(10'000), BucketHistogram::Micros(25'000), BucketHistogram::Micros(50'000),
     BucketHistogram::Micros(100'000), BucketHistogram::Micros(250'000), BucketHistogram::Micros(500'000),
     BucketHistogram::Micros(1'000'000), BucketHistogram::Micros(2'500'000),
     BucketHistogram::Micros(10'000'000)}};
/// Of what the loop itself does, or should not wait for: commits, stalls.
inline constexpr std::array<BucketHistogram::Micros, 12> k_stall_bounds{
    {BucketHistogram::Micros(25), BucketHistogram::Micros(50), BucketHistogram::Micros(100),
     BucketHistogram::Micros(250), BucketHistogram::Micros(500), BucketHistogram::Micros(1'000),
     BucketHistogram::Micros(2'500), BucketHistogram::Micros(5'000), BucketHistogram::Micros(10'000),
     BucketHistogram::Micros(50'000), BucketHistogram::Micros(250'000), BucketHistogram::Micros(1'000'000)}};
/// Of what takes as long as people and trees make it: turns, walks, removals.
inline constexpr std::array<BucketHistogram::Micros, 12> k_task_bounds{
    {BucketHistogram::Micros(1'000), BucketHistogram::Micros(5'000), BucketHistogram::Micros(25'000),
     BucketHistogram::Micros(100'000), BucketHistogram::Micros(500'000), BucketHistogram::Micros(1'000'000),
     BucketHistogram::Micros(5'000'000), BucketHistogram::Micros(15'000'000),
     BucketHistogram::Micros(60'000'000), BucketHistogram::Micros(300'000'000),
     BucketHistogram::Micros(900'000'000), BucketHistogram::Micros(3'600'000'000)}};

}  // namespace atl::base
