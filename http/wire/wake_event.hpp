// An event that one coroutine waits for, and that any code may post. A wake without a waiter is lost: the
// state that a waiter looks for is kept elsewhere, and it waits in a loop:
// `while (!ready) co_await event->async_wait();`. Single-threaded.
#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>

#include "core/base/defer_queue.hpp"
#include "core/base/task.hpp"

namespace atl::http {

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
    /// Resumes the waiter later, in its turn among all that the loop has put off (core/base/defer_queue.hpp);
    /// several calls before that are one. Callable from anywhere.
    void post();

  private:
    base::DeferQueue& queue_;
    boost::asio::any_completion_handler<void()> waiter_;
    bool posted_ = false;
};

}  // namespace atl::http
