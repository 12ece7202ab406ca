// A place that is kept for a start which comes soon: until it ends, no other start gets it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/shares.hpp"

namespace atl::sandbox {

/// Places among the living sandboxes, and their memory limits together.
struct Places {
    std::size_t sandboxes = 0;
    std::uint64_t memory_mb = 0;
};

/// The part of the budgets `places` and `memory` that one sandbox holds for its user.
struct PlaceShares {
    base::Share sandbox;
    base::Share memory;
};

/// Holds a unit of them until it is destroyed. The manager that gave it outlives it.
class Reservation {
  public:
    /// `place`: of its user; of nothing where that has none now.
    Reservation(std::shared_ptr<Places> all, std::uint32_t memory_mb, PlaceShares place)
        : all_(std::move(all)), memory_mb_(memory_mb), place_(std::move(place)) {
        ++all_->sandboxes;
        all_->memory_mb += memory_mb_;
    }
    ~Reservation() {
        --all_->sandboxes;
        all_->memory_mb -= memory_mb_;
    }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

  private:
    std::shared_ptr<Places> all_;
    std::uint32_t memory_mb_;
    PlaceShares place_;
};

}  // namespace atl::sandbox
