#include "http/server/refusal_log.hpp"

#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::http {
namespace {

constexpr RateLimiter::Rate k_told_refusals{std::chrono::seconds{1}, 20};
constexpr base::Millis k_count_interval{5'000};

}  // namespace

RefusalLog::RefusalLog(base::Timers& timers) : timers_(timers), lines_(k_told_refusals, 1) {}

RefusalLog::~RefusalLog() {
    timers_.cancel(timer_);
    log_count();
}

bool RefusalLog::admits(base::SteadyTime now) {
    if (lines_.take(0, now) == RateLimiter::Nanos::zero())
        return true;
    ++suppressed_;
    if (timer_ == 0) {
        timer_ = timers_.arm(k_count_interval, [this] {
            timer_ = 0;
            log_count();
        });
    }
    return false;
}

void RefusalLog::log_count() {
    if (suppressed_ > 0)
        base::LogLine(base::evt::requests_suppressed).field("count", std::exchange(suppressed_, 0)).info();
}

}  // namespace atl::http
