// How many of something somebody may have at the same time. Whoever has one holds a Lease; the table has an
// entry for each that holds at least one, so it is no larger than what there is of leases. Pure.
// Not here: what is limited and for whom (client_limits.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "http/access/rate_limiter.hpp"

namespace atl::http {

class CountLimiter {
  public:
    /// Gives back when it is destroyed what it counts; an empty one counts nothing. The limiter must outlive
    /// it.
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

    /// `most` for each; 0: no limit, and nothing is counted.
    explicit CountLimiter(std::size_t most) noexcept : most_(most) {}
    CountLimiter(const CountLimiter&) = delete;
    CountLimiter& operator=(const CountLimiter&) = delete;

    /// One more for `who`; nothing if it has them all.
    std::optional<Lease> take(std::uint64_t who);

    /// How many have at least one.
    std::size_t entries() const noexcept { return counts_.size(); }

  private:
    void give_back(std::uint64_t who) noexcept;

    std::size_t most_;
    std::unordered_map<std::uint64_t, std::size_t, SeededHash> counts_;
};

}  // namespace atl::http
