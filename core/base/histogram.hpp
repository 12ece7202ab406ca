// How often durations of which size occurred: log-linear buckets of microseconds, 32 for each power of two,
// so that a quantile is told at most 1/32 (3.2 %) too high. Fixed size, no allocation, a few instructions a
// sample. Not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace atl::base {

class Histogram {
  public:
    using Micros = std::chrono::microseconds;

    /// Negative durations count as zero, those beyond an hour as an hour.
    void add(std::chrono::nanoseconds duration) noexcept;
    std::uint64_t count() const noexcept { return count_; }
    /// The largest of all samples, exactly; 0 without samples.
    Micros max() const noexcept { return Micros(static_cast<std::int64_t>(max_us_)); }
    /// What the `share` (0 to 1) smallest samples do not exceed; 0 without samples.
    Micros quantile(double share) const noexcept;

  private:
    static constexpr std::uint64_t k_most_us = 3'600'000'000;
    static constexpr unsigned k_sub_bits = 5;
    static constexpr unsigned k_groups = 28;  // 2^(27 + 5) is beyond k_most_us
    static_assert(k_most_us < std::uint64_t{1} << (k_groups + k_sub_bits - 1));

    static std::size_t bucket_of(std::uint64_t us) noexcept;
    static std::uint64_t last_of(std::size_t bucket) noexcept;

    std::array<std::uint64_t, std::size_t{k_groups} << k_sub_bits> counts_{};
    std::uint64_t count_ = 0;
    std::uint64_t max_us_ = 0;
};

}  // namespace atl::base
