#include "core/base/loop_lag.hpp"

namespace atl::base {

void LoopLag::start() {
    timer_.expires_after(k_tick);
    await_tick();
}

void LoopLag::stop() {
    stopped_ = true;
    timer_.cancel();
}

void LoopLag::await_tick() {
    timer_.async_wait([this](const boost::system::error_code& error) {
        if (error || stopped_)
            return;
        const auto now = std::chrono::steady_clock::now();
        auto due = timer_.expiry();
        for (; due <= now; due += k_tick)
            lateness_.add(now - due);
        timer_.expires_at(due);
        await_tick();
    });
}

}  // namespace atl::base
