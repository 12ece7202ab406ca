#include "core/base/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace atl::base {

// Group 0 holds 0 to 31 exactly; group g holds [32 << (g - 1), 32 << g) in 32 buckets of 1 << (g - 1).
std::size_t Histogram::bucket_of(std::uint64_t us) noexcept {
    const auto width = static_cast<unsigned>(std::bit_width(us >> k_sub_bits));
    if (width == 0)
        return us;
    const std::uint64_t sub = (us >> (width - 1)) - (std::uint64_t{1} << k_sub_bits);
    return (std::size_t{width} << k_sub_bits) + sub;
}

std::uint64_t Histogram::last_of(std::size_t bucket) noexcept {
    const std::size_t group = bucket >> k_sub_bits;
    if (group == 0)
        return bucket;
    const std::uint64_t sub = bucket - (group << k_sub_bits);
    return (((sub + 1) + (std::uint64_t{1} << k_sub_bits)) << (group - 1)) - 1;
}

void Histogram::add(std::chrono::nanoseconds duration) noexcept {
    const auto us = std::min<std::uint64_t>(
        static_cast<std::uint64_t>(std::max<std::int64_t>(std::chrono::floor<Micros>(duration).count(), 0)),
        k_most_us);
    ++counts_[bucket_of(us)];
    ++count_;
    max_us_ = std::max(max_us_, us);
}

Histogram::Micros Histogram::quantile(double share) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
        seen += counts_[bucket];
        if (seen != 0 && seen >= wanted)
            return Micros(static_cast<std::int64_t>(std::min(last_of(bucket), max_us_)));
    }
    return max();
}

}  // namespace atl::base
