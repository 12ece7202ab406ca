// How many clients read a conversation's events now, by the way that they took. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "core/base/counts_by.hpp"

namespace atl::http {

enum class SubscriberKind : std::uint8_t {
    sse,        // a conversation's Server-Sent Events
    turn,       // the events of one turn, as the answer to its message
    websocket,  // a conversation's WebSocket
};

class SubscriberCounts {
  public:
    /// Counts one reader as long as it lives; an empty lease counts none. The counts must outlive it.
    class Lease {
      public:
        Lease() = default;
        Lease(Lease&& other) noexcept : counts_(std::exchange(other.counts_, nullptr)), kind_(other.kind_) {}
        Lease& operator=(Lease&& other) noexcept {
            std::swap(counts_, other.counts_);
            std::swap(kind_, other.kind_);
            return *this;
        }
        ~Lease() {
            if (counts_ != nullptr)
                --counts_->now_[kind_];
        }

      private:
        friend class SubscriberCounts;
        Lease(SubscriberCounts& counts, SubscriberKind kind) noexcept : counts_(&counts), kind_(kind) {
            ++counts.now_[kind];
        }
        SubscriberCounts* counts_ = nullptr;
        SubscriberKind kind_ = SubscriberKind::sse;
    };

    Lease enter(SubscriberKind kind) noexcept { return Lease(*this, kind); }
    std::uint64_t now(SubscriberKind kind) const noexcept { return now_[kind]; }

  private:
    base::CountsBy<SubscriberKind> now_;
};

}  // namespace atl::http
