#include "core/base/asio_timers.hpp"

#include <boost/asio/execution_context.hpp>
#include <utility>

#include "core/base/defer_queue.hpp"

namespace atl::base {

AsioTimers::AsioTimers(Executor executor) : executor_(executor), timer_(executor) {}

TimerId AsioTimers::arm(Millis delay, std::function<void()> fire) {
    if (stopped_)
        return 0;
    const TimerId id = ++last_id_;
    const SteadyTime at = std::chrono::steady_clock::now() + delay;
    due_.emplace(Key{at, id}, std::move(fire));
    by_id_.emplace(id, at);
    if (at < scheduled_)
        schedule();
    return id;
}

void AsioTimers::cancel(TimerId id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end())
        return;
    due_.erase(Key{found->second, id});
    by_id_.erase(found);
    // The steady_timer stays armed: waking once for nothing is cheaper than re-arming at every cancel.
    // Only the last cancel disarms it, so that run() can return when no work is left.
    if (due_.empty()) {
        scheduled_ = SteadyTime::max();
        timer_.cancel();
    }
}

void AsioTimers::defer(std::function<void()> run) {
    asio::use_service<DeferQueue>(executor_.context()).add(std::move(run));
}

void AsioTimers::stop() {
    stopped_ = true;
    due_.clear();
    by_id_.clear();
    timer_.cancel();
}

void AsioTimers::schedule() {
    scheduled_ = due_.begin()->first.first;
    timer_.expires_at(scheduled_);
    timer_.async_wait([this](const boost::system::error_code& error) {
        if (!error)
            fire_due();
    });
}

void AsioTimers::fire_due() {
    const SteadyTime now = std::chrono::steady_clock::now();
    scheduled_ = SteadyTime::max();
    while (!due_.empty() && due_.begin()->first.first <= now) {
        auto node = due_.extract(due_.begin());
        by_id_.erase(node.key().second);
        node.mapped()();
    }
    if (!due_.empty() && due_.begin()->first.first < scheduled_)
        schedule();
}

}  // namespace atl::base
