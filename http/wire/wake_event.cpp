#include "http/wire/wake_event.hpp"

#include <utility>

namespace atl::http {

WakeEvent::WakeEvent(base::Executor executor)
    : queue_(boost::asio::use_service<base::DeferQueue>(executor.context())) {}

void WakeEvent::notify() {
    if (!waiter_)
        return;
    auto waiter = std::move(waiter_);
    waiter_ = {};
    std::move(waiter)();
}

void WakeEvent::post() {
    if (std::exchange(posted_, true))
        return;
    queue_.add([self = shared_from_this()] {
        self->posted_ = false;
        self->notify();
    });
}

}  // namespace atl::http
