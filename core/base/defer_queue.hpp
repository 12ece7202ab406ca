// A queue of functions that run after the current handler has returned, in the order in which they were
// added. A function that a running function adds runs in the same handler, within a slice of time: a commit
// and the wakes that follow it cost the loop one poll of its descriptors and not one poll each. The queue is
// a service of the io_context, so a loop has one queue.
#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>

namespace atl::base {

class DeferQueue final : public boost::asio::execution_context::service {
  public:
    using key_type = DeferQueue;
    static boost::asio::execution_context::id id;

    explicit DeferQueue(boost::asio::io_context& loop);

    /// Calls `run` once, never from inside add(). Dropped if the loop is destroyed before.
    void add(std::function<void()> run);
    std::size_t size() const noexcept { return waiting_.size(); }

  private:
    void shutdown() override { waiting_.clear(); }
    void post();
    void run_slice();

    boost::asio::io_context& loop_;
    std::deque<std::function<void()>> waiting_;
    bool posted_ = false;  // or running
};

}  // namespace atl::base
