// Limits how many items a holder may have at the same time. Each item is a Lease; the table has an entry for
// each holder with at least one lease, so it is never larger than the number of leases. Pure.
// Not here: the kinds of items and holders (client_limits.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "http/access/rate_limiter.hpp"

namespace atl::http {

class CountLimiter {
  public:
    /// Counts one item until it is destroyed; an empty lease counts none. The limiter must outlive it.
    class Lease {
      public:
        Lease() = default;
        Lease(Lease&& other) noexcept : limiter_(std::exchange(other.limiter_, nullptr)), who_(other.who_) {}
        Lease& operator=(Lease&& other) noexcept {
            std::swap(limiter_, other.limiter_);
            std::swap(who_, other.who_);
            return *this;
        }
        ~Lease() {
            if (limiter_ != nullptr)
                limiter_->give_back(who_);
        }

      private:
        friend class CountLimiter;
        Lease(CountLimiter& limiter, std::uint64_t who) noexcept : limiter_(&limiter), who_(who) {}

        CountLimiter* limiter_ = nullptr;
        std::uint64_t who_ = 0;
    };

    /// `most` items for each holder; 0: no limit, and nothing is counted.
    explicit CountLimiter(std::size_t most) noexcept : most_(most) {}
    CountLimiter(const CountLimiter&) = delete;
    CountLimiter& operator=(const CountLimiter&) = delete;

    /// Takes an item for the holder `who`; nothing if `who` has reached the limit.
    std::optional<Lease> take(std::uint64_t who);

    /// How many have at least one.
    std::size_t entries() const noexcept { return counts_.size(); }

  private:
    void give_back(std::uint64_t who) noexcept;

    std::size_t most_;
    std::unordered_map<std::uint64_t, std::size_t, SeededHash> counts_;
};

}  // namespace atl::http
