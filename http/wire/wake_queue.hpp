// The posted wakes of a loop, first come, first served in each of three lanes, so that a client with a
// request does not wait behind many subscribers. A turn of the loop is a slice of time of `prompt`, a shorter
// one of `fanout` (one event wakes all subscribers of a conversation, a tick of the deadlines many
// connections), and one step of long work (replays: many of them hold up a message no more than one does).
// Between two turns the other ready handlers run. A service of the io_context, so that all wakes of a loop
// share it.
#pragma once

#include <array>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <deque>
#include <memory>

#include "core/base/defer_queue.hpp"
#include "http/wire/wake_event.hpp"

namespace atl::http {

class WakeQueue final : public boost::asio::execution_context::service {
  public:
    using key_type = WakeQueue;
    static boost::asio::execution_context::id id;

    explicit WakeQueue(boost::asio::io_context& loop);

    /// `event` is woken later. Not if it is in that lane.
    void add(std::shared_ptr<WakeEvent> event, WakeLane lane);
    std::size_t size() const noexcept;

  private:
    using Events = std::deque<std::shared_ptr<WakeEvent>>;

    void shutdown() override;
    void run_turn();
    void run_slice(WakeLane lane);

    boost::asio::io_context& loop_;
    base::DeferQueue& deferred_;  // for the first turn
    std::array<Events, 3> lanes_;
    bool posted_ = false;  // or running
};

}  // namespace atl::http
