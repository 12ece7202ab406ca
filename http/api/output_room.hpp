// The room for what a guest has written and its client has not asked for yet. Each response has a part free;
// beyond that it takes of its user's share of `connections`, and where there is none the guest is held
// earlier. Not here: what a connection has been given to send (http/wire/connection.hpp).
#pragma once

#include <cstddef>
#include <utility>

#include "core/base/limits.hpp"
#include "core/base/shares.hpp"

namespace atl::http {

class OutputRoom {
  public:
    /// All of it is free.
    OutputRoom() = default;
    /// `budget` must outlive this.
    OutputRoom(base::Budget& budget, base::ShareHolder holder)
        : budget_(&budget), holder_(std::move(holder)) {}

    /// To be told whenever more or less waits: takes room, or gives it back.
    void fit(std::size_t waiting_bytes) {
        if (waiting_bytes < base::k_free_waiting_bytes) {
            share_ = base::Share();
        } else if (budget_ != nullptr && share_.amount() == 0) {
            if (auto share = budget_->take(holder_, base::k_max_waiting_bytes - base::k_free_waiting_bytes))
                share_ = std::move(*share);
        }
    }
    /// So much may wait before the guest is held.
    std::size_t bytes() const noexcept {
        return budget_ == nullptr || share_.amount() > 0 ? base::k_max_waiting_bytes
                                                         : base::k_free_waiting_bytes;
    }

  private:
    base::Budget* budget_ = nullptr;
    base::ShareHolder holder_;
    base::Share share_;
};

}  // namespace atl::http
