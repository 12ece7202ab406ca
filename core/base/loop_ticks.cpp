#include "core/base/loop_ticks.hpp"

#include <utility>

namespace atl::base {

LoopTicks::LoopTicks(const Executor& executor, std::chrono::milliseconds tick, OnTick on_tick)
    : timer_(executor), tick_(tick), on_tick_(std::move(on_tick)) {}

void LoopTicks::start() {
    timer_.expires_after(tick_);
    await();
}

void LoopTicks::stop() {
    stopped_ = true;
    timer_.cancel();
}

void LoopTicks::await() {
    timer_.async_wait([this](const boost::system::error_code& error) {
        if (error || stopped_)
            return;
        const auto now = std::chrono::steady_clock::now();
        auto due = timer_.expiry();
        for (; due <= now; due += tick_)
            on_tick_(now - due);
        timer_.expires_at(due);
        await();
    });
}

}  // namespace atl::base
