#include "http/api/detached_calls.hpp"

#include <utility>

namespace atl::http {

void DetachedCalls::keep(std::unique_ptr<GuestCall> call, const base::ShareHolder& user) {
    auto place = places_.take(user, 1);
    if (!place)
        return;
    Kept& kept = calls_.emplace_back();
    kept.place = std::move(*place);
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
