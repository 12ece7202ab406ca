#include "http/wire/wake_event.hpp"

#include <utility>

#include "http/wire/wake_queue.hpp"

namespace atl::http {

WakeEvent::WakeEvent(base::Executor executor)
    : queue_(boost::asio::use_service<WakeQueue>(executor.context())) {}

void WakeEvent::notify() {
    if (!waiter_)
        return;
    auto waiter = std::move(waiter_);
    waiter_ = {};
    std::move(waiter)();
}

void WakeEvent::post(WakeLane lane) {
    if (posted_ && lane >= lane_)
        return;
    posted_ = true;
    lane_ = lane;
    queue_.add(shared_from_this(), lane);
}

}  // namespace atl::http
