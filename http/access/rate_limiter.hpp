// Limits the rate of many subjects: each has a token bucket, in bounded memory. A bucket is one number, the
// time at which it will be full again (the generic cell rate algorithm, ITU-T I.371 appendix I). When the
// table is full, the least recently used bucket is evicted, and its owner begins with a full bucket: no
// subject is ever locked out by others. An attacker with more addresses than the table has places is not held
// by this, nor by any limit on one address. Pure: the caller passes the time. Not here: the kinds of subjects
// (client_limits.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "core/base/clock.hpp"

namespace atl::http {

/// Spreads numbers that clients choose, such as addresses, over a hash table in a way that they cannot
/// foresee. Each object has a secret of its own.
class SeededHash {
  public:
    SeededHash();
    std::size_t operator()(std::uint64_t number) const noexcept;

  private:
    std::uint64_t seed_;
};

class RateLimiter {
  public:
    using Nanos = std::chrono::nanoseconds;

    struct Rate {
        Nanos interval{0};      // after which one more action is allowed; 0: no limit
        std::uint32_t burst{};  // actions allowed at once; at least 1
    };
    /// `most_entries` at least 1.
    RateLimiter(Rate rate, std::size_t most_entries) noexcept : rate_(rate), most_entries_(most_entries) {}

    /// Asks for an action of the subject `who` at `now`. Zero: it is allowed and counted. Otherwise it is
    /// refused and not counted, and would be allowed after the returned time.
    Nanos take(std::uint64_t who, base::SteadyTime now);
    /// The time after which one more action of `who` is allowed. Nothing is counted.
    Nanos wait(std::uint64_t who, base::SteadyTime now) const;
    /// Counts `count` more for an action that was allowed, whether or not they are there: what is missing is
    /// waited for before the next one.
    void charge(std::uint64_t who, std::size_t count, base::SteadyTime now);

    /// How many buckets are kept.
    std::size_t entries() const noexcept { return index_.size(); }

  private:
    struct Bucket {
        std::uint64_t who;
        base::SteadyTime full_at;
    };
    using Buckets = std::list<Bucket>;

    Bucket& bucket_of(std::uint64_t who, base::SteadyTime now);

    Rate rate_;
    std::size_t most_entries_;
    Buckets buckets_;  // the most recently used in front
    std::unordered_map<std::uint64_t, Buckets::iterator, SeededHash> index_;
};

}  // namespace atl::http
