// How many durations came up to each of some ascending bounds, their sum and the largest of them: exact at
// the bounds, which is what a Prometheus histogram tells, and quantiles that are as exact as the bounds are
// dense. A binary search a sample, no allocation after construction. Not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace atl::base {

class Histogram {
  public:
    using Micros = std::chrono::microseconds;

    /// `upper_bounds` ascend, and outlive the histogram; a sample that equals a bound is within it.
    explicit Histogram(std::span<const Micros> upper_bounds);

    /// Negative durations count as zero.
    void add(std::chrono::nanoseconds duration) noexcept;

    std::span<const Micros> upper_bounds() const noexcept { return upper_bounds_; }
    /// Samples above the bound before and up to this one; the last is of those above all bounds.
    std::span<const std::uint64_t> counts() const noexcept { return counts_; }
    std::uint64_t count() const noexcept { return count_; }
    std::chrono::nanoseconds sum() const noexcept { return sum_; }
    /// The largest of all samples, in whole microseconds; 0 without samples.
    Micros max() const noexcept { return std::chrono::floor<Micros>(max_); }
    /// An upper bound of the `share` (0 to 1) smallest samples: the bound of their bucket, or max() where
    /// that is less; 0 without samples.
    Micros quantile(double share) const noexcept;

  private:
    std::span<const Micros> upper_bounds_;
    std::vector<std::uint64_t> counts_;
    std::uint64_t count_ = 0;
    std::chrono::nanoseconds sum_{};
    std::chrono::nanoseconds max_{};
};

/// Bounds for durations that should be milliseconds: starts, creates.
inline constexpr std::array<Histogram::Micros, 12> k_latency_bounds{
    {Histogram::Micros(1'000), Histogram::Micros(2'500), Histogram::Micros(5'000), Histogram::Micros(10'000),
     Histogram::Micros(25'000), Histogram::Micros(50'000), Histogram::Micros(100'000),
     Histogram::Micros(250'000), Histogram::Micros(500'000), Histogram::Micros(1'000'000),
     Histogram::Micros(2'500'000), Histogram::Micros(10'000'000)}};
/// Bounds for work that the loop itself does, or should not wait for: commits, stalls.
inline constexpr std::array<Histogram::Micros, 12> k_stall_bounds{
    {Histogram::Micros(25), Histogram::Micros(50), Histogram::Micros(100), Histogram::Micros(250),
     Histogram::Micros(500), Histogram::Micros(1'000), Histogram::Micros(2'500), Histogram::Micros(5'000),
     Histogram::Micros(10'000), Histogram::Micros(50'000), Histogram::Micros(250'000),
     Histogram::Micros(1'000'000)}};
/// Bounds for durations that depend on people or on the size of file trees: turns, walks, removals.
inline constexpr std::array<Histogram::Micros, 12> k_task_bounds{
    {Histogram::Micros(1'000), Histogram::Micros(5'000), Histogram::Micros(25'000),
     Histogram::Micros(100'000), Histogram::Micros(500'000), Histogram::Micros(1'000'000),
     Histogram::Micros(5'000'000), Histogram::Micros(15'000'000), Histogram::Micros(60'000'000),
     Histogram::Micros(300'000'000), Histogram::Micros(900'000'000), Histogram::Micros(3'600'000'000)}};

namespace detail {

constexpr auto make_quantile_bounds() {
    constexpr std::int64_t k_steps = 64;
    std::array<Histogram::Micros, 896> bounds{};
    std::int64_t us = 0;
    std::int64_t step = 1;
    for (auto& bound : bounds) {
        bound = Histogram::Micros(us);
        us += step;
        if (us == k_steps * step)
            step *= 2;
    }
    return bounds;
}

}  // namespace detail

/// For quantiles: up to 1.2 hours in steps of at most 1/32 (3.2 %).
inline constexpr auto k_quantile_bounds = detail::make_quantile_bounds();
static_assert(k_quantile_bounds.back() >= std::chrono::hours(1));

}  // namespace atl::base
