#include "http/api/detached_calls.hpp"

#include "core/plain/operation_limits.hpp"

namespace atl::http {

void DetachedCalls::keep(std::unique_ptr<GuestCall> call) {
    if (calls_.size() >= base::k_max_unattended_calls)
        return;
    Kept& kept = calls_.emplace_back();
    kept.call = std::move(call);
    // Not from inside its own callback.
    kept.call->leave([this, &kept] {
        kept.is_over = true;
        if (sweep_ == 0)
            sweep_ = timers_.arm(base::Millis{0}, [this] {
                sweep_ = 0;
                calls_.remove_if([](const Kept& each) { return each.is_over; });
            });
    });
}

}  // namespace atl::http
