// The wakes that were posted on a loop, first come, first served, a slice of time in a handler: one event
// wakes all subscribers of a conversation, a tick of the deadlines many connections, and between two slices
// whatever else is ready has its turn. A service of the io_context, so that all wakes of a loop share it.
#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <memory>

#include "core/base/defer_queue.hpp"

namespace atl::http {

class WakeEvent;

class WakeQueue final : public boost::asio::execution_context::service {
  public:
    using key_type = WakeQueue;
    static boost::asio::execution_context::id id;

    explicit WakeQueue(boost::asio::io_context& loop);

    /// `event` is woken later. Not if it is in the queue.
    void add(std::shared_ptr<WakeEvent> event);
    std::size_t size() const noexcept { return waiting_.size(); }

  private:
    void shutdown() override { waiting_.clear(); }
    void run_slice();

    boost::asio::io_context& loop_;
    base::DeferQueue& deferred_;  // for the first slice
    std::deque<std::shared_ptr<WakeEvent>> waiting_;
    bool posted_ = false;  // or running
};

}  // namespace atl::http
