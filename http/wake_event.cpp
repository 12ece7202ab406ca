#include "http/wake_event.hpp"

#include <boost/asio/post.hpp>

namespace atl::http {

void WakeEvent::notify() {
    if (!waiter_)
        return;
    auto waiter = std::move(waiter_);
    waiter_ = {};
    std::move(waiter)();
}

void WakeEvent::post() {
    if (posted_)
        return;
    posted_ = true;
    boost::asio::post(executor_, [self = shared_from_this()] {
        self->posted_ = false;
        self->notify();
    });
}

}  // namespace atl::http
