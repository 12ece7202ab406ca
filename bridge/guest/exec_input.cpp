#include "bridge/guest/exec_input.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

namespace atl::guest {

bool ExecInput::write(std::string_view bytes) {
    if (bytes.size() > granted_bytes_)
        return false;
    granted_bytes_ -= bytes.size();
    if (!pipe_) {
        passed_on(bytes.size());
        return true;
    }
    queue_.erase(0, std::exchange(sent_bytes_, 0));
    queue_.append(bytes);
    if (!waiting_)
        flush();
    return true;
}

void ExecInput::end() {
    ending_ = true;
    if (queue_.empty())
        close();
}

void ExecInput::close() {
    loop_.cancel(std::exchange(grant_timer_, 0));
    if (waiting_)
        loop_.remove(pipe_.get());
    waiting_ = false;
    pipe_.reset();
    passed_bytes_ += queue_.size() - sent_bytes_;
    queue_ = {};
    sent_bytes_ = 0;
}

void ExecInput::on_ready(std::uint32_t) {
    flush();
}

void ExecInput::flush() {
    while (sent_bytes_ < queue_.size()) {
        const ssize_t size = ::write(pipe_.get(), queue_.data() + sent_bytes_, queue_.size() - sent_bytes_);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (!waiting_)
                waiting_ = loop_.add(pipe_.get(), EPOLLOUT, *this);
            if (waiting_)
                return;
        }
        if (size < 0) {
            // The program closed its stdin, or the pipe cannot be watched: nothing more goes that way.
            close();
            return passed_on(0);
        }
        sent_bytes_ += static_cast<std::size_t>(size);
        passed_on(static_cast<std::size_t>(size));
    }
    queue_ = {};
    sent_bytes_ = 0;
    if (waiting_)
        loop_.remove(pipe_.get());
    waiting_ = false;
    if (ending_)
        close();
}

// One grant for all that one event passed on.
void ExecInput::passed_on(std::size_t bytes) {
    passed_bytes_ += bytes;
    if (grant_timer_ != 0 || ending_)
        return;
    grant_timer_ = loop_.arm(Millis{0}, [this] {
        grant_timer_ = 0;
        const std::size_t again = std::exchange(passed_bytes_, 0);
        granted_bytes_ += again;
        if (again != 0)
            grant_(static_cast<std::uint32_t>(again));
    });
}

}  // namespace atl::guest
