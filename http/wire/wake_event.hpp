// One coroutine waits; any code may wake it. A wake without a waiter is lost: the state that a waiter looks
// for is kept elsewhere, and it waits in a loop: `while (!ready) co_await event->async_wait();`.
// Single-threaded.
#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/task.hpp"

namespace atl::http {

class WakeQueue;

/// The priority of a wake: the work that may run before it in a turn of the loop.
enum class WakeLane : std::uint8_t {
    prompt,  // other wakes of this lane
    fanout,  // one of many wakes at once: also a slice of time of `prompt`
    step,    // the next step of long work: also a slice of `prompt` and one of `fanout`
};

/// The lane for one of `together` sessions that are woken together.
constexpr WakeLane lane_among(std::size_t together) noexcept {
    constexpr std::size_t k_few = 8;
    return together <= k_few ? WakeLane::prompt : WakeLane::fanout;
}

class WakeEvent : public std::enable_shared_from_this<WakeEvent> {
  public:
    explicit WakeEvent(base::Executor executor);

    /// Completes at the next wake. One waiter at a time. Not cancellable: a wake ends it.
    base::Task<> async_wait() {
        return boost::asio::async_initiate<const boost::asio::use_awaitable_t<base::Executor>, void()>(
            [this](auto handler) { waiter_ = std::move(handler); },
            boost::asio::use_awaitable_t<base::Executor>{});
    }

    /// Resumes the waiter before returning. Only from a handler of the loop that holds no iterators of its
    /// own.
    void notify();
    /// Resumes the waiter later, after those that were posted before in this lane (wake_queue.hpp); several
    /// calls before that are one, in the most urgent of their lanes. Callable from anywhere.
    void post(WakeLane lane = WakeLane::prompt);

  private:
    friend class WakeQueue;

    WakeQueue& queue_;
    boost::asio::any_completion_handler<void()> waiter_;
    bool posted_ = false;
    WakeLane lane_ = WakeLane::prompt;  // while posted; entries of it in other lanes are void
};

}  // namespace atl::http
