#include "core/base/bucket_histogram.hpp"

#include <algorithm>

namespace atl::base {

BucketHistogram::BucketHistogram(std::span<const Micros> upper_bounds)
    : upper_bounds_(upper_bounds), counts_(upper_bounds.size() + 1) {}

void BucketHistogram::add(std::chrono::nanoseconds duration) noexcept {
    duration = std::max(duration, std::chrono::nanoseconds::zero());
    std::size_t bucket = 0;
    while (bucket < upper_bounds_.size() && duration > upper_bounds_[bucket])
        ++bucket;
    ++counts_[bucket];
    ++count_;
    sum_ += duration;
}

}  // namespace atl::base
