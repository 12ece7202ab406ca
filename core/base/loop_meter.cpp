#include "core/base/loop_meter.hpp"

#include <time.h>

#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::base {
namespace {

/// The processor time of the calling thread (clock_gettime(2)); it stands still while the loop waits.
std::chrono::nanoseconds thread_cpu() noexcept {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

std::span<const Histogram::Micros> bounds_with(LoopMeter::Detail detail) {
    if (detail == LoopMeter::Detail::handlers)
        return k_quantile_bounds;
    return {};
}

}  // namespace

LoopMeter::LoopMeter(asio::io_context& loop, Detail detail)
    : loop_(loop),
      detail_(detail),
      tick_(detail == Detail::handlers ? k_detailed_tick : k_tick),
      timer_(loop.get_executor()),
      lateness_(bounds_with(detail)),
      handler_cpu_(bounds_with(detail)) {}

void LoopMeter::run() {
    if (!stopped_) {
        timer_.expires_after(tick_);
        await_tick();
    }
    if (detail_ == Detail::handlers)
        run_measured();
    else
        loop_.run();
}

void LoopMeter::run_measured() {
    auto last = thread_cpu();
    while (loop_.run_one() != 0) {
        const auto now = thread_cpu();
        const auto used = now - std::exchange(last, now);
        handler_cpu_.add(used);
        if (used > k_handler_budget)
            log_slow(used);
    }
}

void LoopMeter::stop() {
    stopped_ = true;
    timer_.cancel();
}

void LoopMeter::await_tick() {
    timer_.async_wait([this](const boost::system::error_code& error) {
        if (error || stopped_)
            return;
        const auto now = std::chrono::steady_clock::now();
        auto due = timer_.expiry();
        for (; due <= now; due += tick_) {
            stalls_.add(now - due);
            if (detail_ == Detail::handlers)
                lateness_.add(now - due);
        }
        timer_.expires_at(due);
        await_tick();
    });
}

void LoopMeter::log_slow(std::chrono::nanoseconds handler_cpu) {
    const auto now = std::chrono::steady_clock::now();
    if (now < quiet_until_)
        return;
    quiet_until_ = now + std::chrono::seconds(1);
    LogLine(evt::slow_handler)
        .field("dur_ms", std::chrono::duration_cast<std::chrono::milliseconds>(handler_cpu).count())
        .warn();
}

}  // namespace atl::base
