// A descriptor in the reactor: owned here, waited for here (pidfds, pipes, cgroup.events). A callback is
// called at most once a wait, from the loop, and never after the watch has been stopped or destroyed.
// Not here: reading.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "core/base/task.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::base {

class FdWatch {
  public:
    enum class Event { readable, writable, exceptional };

    /// Takes `fd` over. Throws boost::system::system_error if epoll cannot watch it or is out of memory.
    FdWatch(const Executor& executor, UniqueFd fd);
    ~FdWatch();
    FdWatch(const FdWatch&) = delete;
    FdWatch& operator=(const FdWatch&) = delete;

    const UniqueFd& fd() const noexcept { return fd_; }
    /// Waits, once at a time. `ready` is dropped uncalled when the watch is stopped.
    void wait(Event event, std::function<void()> ready);
    /// Ends the wait; the descriptor stays open.
    void stop();

  private:
    using Descriptor = asio::posix::basic_stream_descriptor<Executor>;

    UniqueFd fd_;
    Descriptor descriptor_;
    std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace atl::base
