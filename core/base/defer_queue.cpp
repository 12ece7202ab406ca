#include "core/base/defer_queue.hpp"

#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

namespace atl::base {
namespace {

// The longest run of deferred functions in one handler. A handler of the loop may take a millisecond.
constexpr std::chrono::microseconds k_slice{250};

}  // namespace

boost::asio::execution_context::id DeferQueue::id;

DeferQueue::DeferQueue(boost::asio::io_context& loop) : service(loop), loop_(loop) {}

void DeferQueue::add(std::function<void()> run) {
    waiting_.push_back(std::move(run));
    if (!std::exchange(posted_, true))
        post();
}

void DeferQueue::post() {
    boost::asio::post(loop_, [this] { run_slice(); });
}

void DeferQueue::run_slice() {
    const auto end = std::chrono::steady_clock::now() + k_slice;
    do {
        const auto run = std::move(waiting_.front());
        waiting_.pop_front();
        run();
    } while (!waiting_.empty() && std::chrono::steady_clock::now() < end);
    if (waiting_.empty())
        posted_ = false;
    else
        post();
}

}  // namespace atl::base
