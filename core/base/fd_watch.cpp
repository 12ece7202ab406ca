#include "core/base/fd_watch.hpp"

namespace atl::base {

FdWatch::FdWatch(const Executor& executor, UniqueFd fd)
    : fd_(std::move(fd)), descriptor_(executor, fd_.get()) {}

FdWatch::~FdWatch() {
    alive_.reset();
    // fd_ closes it: the descriptor only forgets it.
    descriptor_.release();
}

void FdWatch::wait(Event event, std::function<void()> ready) {
    const auto kind = event == Event::readable   ? Descriptor::wait_read
                      : event == Event::writable ? Descriptor::wait_write
                                                 : Descriptor::wait_error;
    // A wait that succeeded may still sit in the queue when the watch is stopped: `alive` tells.
    descriptor_.async_wait(kind, [alive = std::weak_ptr<char>(alive_),
                                  run = std::move(ready)](const boost::system::error_code& error) {
        if (!error && !alive.expired())
            run();
    });
}

void FdWatch::stop() {
    alive_ = std::make_shared<char>();
    boost::system::error_code ignored;
    descriptor_.cancel(ignored);
}

}  // namespace atl::base
