// What is to run once the present handler is over, first come, first served. What is added meanwhile by what
// runs follows in the same handler, within a slice of time: a commit and the wakes that it brings cost the
// loop one look at its descriptors and not one each. A service of the io_context, so that a loop has one.
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

  private:
    void shutdown() override { waiting_.clear(); }
    void post();
    void run_slice();

    boost::asio::io_context& loop_;
    std::deque<std::function<void()>> waiting_;
    bool posted_ = false;  // or running
};

}  // namespace atl::base
