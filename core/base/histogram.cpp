#include "core/base/histogram.hpp"

#include <algorithm>
#include <cmath>

namespace atl::base {

Histogram::Histogram(std::span<const Micros> upper_bounds)
    : upper_bounds_(upper_bounds), counts_(upper_bounds.size() + 1) {}

void Histogram::add(std::chrono::nanoseconds duration) noexcept {
    duration = std::max(duration, std::chrono::nanoseconds::zero());
    const auto bound = std::lower_bound(upper_bounds_.begin(), upper_bounds_.end(), duration);
    ++counts_[static_cast<std::size_t>(bound - upper_bounds_.begin())];
    ++count_;
    sum_ += duration;
    max_ = std::max(max_, duration);
}

Histogram::Micros Histogram::quantile(double share) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < upper_bounds_.size(); ++bucket) {
        seen += counts_[bucket];
        if (seen != 0 && seen >= wanted)
            return std::min(upper_bounds_[bucket], max());
    }
    return max();
}

}  // namespace atl::base
