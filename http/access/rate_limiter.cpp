#include "http/access/rate_limiter.hpp"

#include <algorithm>

#include "core/base/ids.hpp"

namespace atl::http {

SeededHash::SeededHash() : seed_(0) {
    base::fill_random({reinterpret_cast<unsigned char*>(&seed_), sizeof seed_});
}

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
std::size_t SeededHash::operator()(std::uint64_t number) const noexcept {
    std::uint64_t x = number ^ seed_;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
}

RateLimiter::Nanos RateLimiter::take(std::uint64_t who, base::SteadyTime now) {
    if (rate_.interval == Nanos::zero())
        return Nanos::zero();
    Bucket& bucket = bucket_of(who, now);
    const auto full_at = std::max(bucket.full_at, now) + rate_.interval;
    const auto most = now + rate_.interval * rate_.burst;
    if (full_at > most)
        return full_at - most;
    bucket.full_at = full_at;
    return Nanos::zero();
}

RateLimiter::Nanos RateLimiter::wait(std::uint64_t who, base::SteadyTime now) const {
    const auto found = index_.find(who);
    if (found == index_.end())
        return Nanos::zero();
    const auto full_at = std::max(found->second->full_at, now) + rate_.interval;
    return std::max(Nanos::zero(), Nanos(full_at - now - rate_.interval * rate_.burst));
}

void RateLimiter::charge(std::uint64_t who, std::size_t count, base::SteadyTime now) {
    if (rate_.interval == Nanos::zero() || count == 0)
        return;
    Bucket& bucket = bucket_of(who, now);
    bucket.full_at = std::max(bucket.full_at, now) + rate_.interval * count;
}

RateLimiter::Bucket& RateLimiter::bucket_of(std::uint64_t who, base::SteadyTime now) {
    const auto found = index_.find(who);
    if (found != index_.end()) {
        buckets_.splice(buckets_.begin(), buckets_, found->second);
        return buckets_.front();
    }
    // A full bucket carries no information. Removing two of them for each new bucket keeps the table as small
    // as its use.
    for (int looked = 0; looked < 2 && !buckets_.empty() && buckets_.back().full_at <= now; ++looked) {
        index_.erase(buckets_.back().who);
        buckets_.pop_back();
    }
    if (index_.size() >= most_entries_) {
        index_.erase(buckets_.back().who);
        buckets_.splice(buckets_.begin(), buckets_, std::prev(buckets_.end()));
        buckets_.front() = {who, now};
    } else {
        buckets_.push_front({who, now});
    }
    index_.emplace(who, buckets_.begin());
    return buckets_.front();
}

}  // namespace atl::http
