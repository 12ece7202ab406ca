#include "core/base/loop_meter.hpp"

#include <time.h>

#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::base {
namespace {

/// What the calling thread has used (clock_gettime(2)); it stands still while the loop waits.
std::chrono::nanoseconds thread_cpu() noexcept {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

LoopMeter::LoopMeter(asio::io_context& loop)
    : loop_(loop), ticks_(loop.get_executor(), k_tick, [this](auto late) { lateness_.add(late); }) {}

void LoopMeter::run() {
    ticks_.start();
    auto last = thread_cpu();
    while (loop_.run_one() != 0) {
        const auto now = thread_cpu();
        const auto used = now - std::exchange(last, now);
        handler_cpu_.add(used);
        if (used > k_handler_budget)
            tell(used);
    }
}

void LoopMeter::tell(std::chrono::nanoseconds handler_cpu) {
    const auto now = std::chrono::steady_clock::now();
    if (now < quiet_until_)
        return;
    quiet_until_ = now + std::chrono::seconds(1);
    LogLine(evt::slow_handler)
        .field("dur_ms", std::chrono::duration_cast<std::chrono::milliseconds>(handler_cpu).count())
        .warn();
}

}  // namespace atl::base
