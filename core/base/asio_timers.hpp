// The Timers port on an io_context. All timers of the core share one steady_timer and one ordered map, so
// that arming and cancelling cost no system call. Destroy it only after the loop has run out of work, or
// call stop() first: pending timers are then dropped without firing.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <map>
#include <unordered_map>

#include "core/base/clock.hpp"
#include "core/base/task.hpp"

namespace atl::base {

class AsioTimers final : public Timers {
  public:
    explicit AsioTimers(Executor executor);

    TimerId arm(Millis delay, std::function<void()> fire) override;
    void cancel(TimerId id) override;
    void defer(std::function<void()> run) override;
    /// Drops all timers and lets the loop run out of this work. Later arm() calls are ignored.
    void stop();

  private:
    using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                             asio::wait_traits<std::chrono::steady_clock>, Executor>;
    using Key = std::pair<SteadyTime, TimerId>;

    void schedule();
    void fire_due();

    Executor executor_;
    Timer timer_;
    std::map<Key, std::function<void()>> due_;
    std::unordered_map<TimerId, SteadyTime> by_id_;
    SteadyTime scheduled_ = SteadyTime::max();
    TimerId last_id_ = 0;
    bool stopped_ = false;
};

}  // namespace atl::base
