#include "http/wake_queue.hpp"

#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "http/wake_event.hpp"

namespace atl::http {
namespace {

// Of a loop whose handlers may take a millisecond.
constexpr std::chrono::microseconds k_slice{250};

}  // namespace

boost::asio::execution_context::id WakeQueue::id;

WakeQueue::WakeQueue(boost::asio::io_context& loop)
    : service(loop), loop_(loop), deferred_(boost::asio::use_service<base::DeferQueue>(loop)) {}

void WakeQueue::add(std::shared_ptr<WakeEvent> event) {
    waiting_.push_back(std::move(event));
    if (!std::exchange(posted_, true))
        deferred_.add([this] { run_slice(); });
}

void WakeQueue::run_slice() {
    // What is added meanwhile goes behind and belongs to a later turn of the loop.
    std::size_t left = waiting_.size();
    const auto end = std::chrono::steady_clock::now() + k_slice;
    do {
        const auto event = std::move(waiting_.front());
        waiting_.pop_front();
        event->posted_ = false;
        event->notify();
    } while (--left > 0 && std::chrono::steady_clock::now() < end);
    if (waiting_.empty())
        posted_ = false;
    else
        boost::asio::post(loop_, [this] { run_slice(); });
}

}  // namespace atl::http
