#include "bridge/guest/program_input.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

namespace atl::guest {

InputPipe::~InputPipe() {
    unwatch();
}

void InputPipe::write(std::string_view bytes) {
    if (bytes.empty())
        return;
    if (!is_open())
        return passed_(bytes.size());
    queue_.erase(0, std::exchange(sent_bytes_, 0));
    queue_.append(bytes);
    if (!waiting_)
        flush();
}

void InputPipe::end() {
    ending_ = true;
    if (queue_.empty())
        close();
}

void InputPipe::close() {
    unwatch();
    pipe_.reset();
    const std::size_t left_bytes = queue_.size() - std::exchange(sent_bytes_, 0);
    queue_ = {};
    if (left_bytes > 0)
        passed_(left_bytes);
}

// flush() looks at the rest of the queue when the pipe has room.
void InputPipe::drop(std::size_t from, std::size_t bytes) {
    queue_.erase(sent_bytes_ + from, bytes);
}

void InputPipe::unwatch() {
    if (std::exchange(waiting_, false))
        loop_.remove(pipe_.get());
}

void InputPipe::flush() {
    while (sent_bytes_ < queue_.size()) {
        const ssize_t size = ::write(pipe_.get(), queue_.data() + sent_bytes_, queue_.size() - sent_bytes_);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (!waiting_)
                waiting_ = loop_.add(pipe_.get(), EPOLLOUT, *this);
            if (waiting_)
                return;
        }
        // The program closed its stdin, or the pipe cannot be watched: nothing more goes that way.
        if (size < 0)
            return close();
        sent_bytes_ += static_cast<std::size_t>(size);
        passed_(static_cast<std::size_t>(size));
    }
    queue_ = {};
    sent_bytes_ = 0;
    unwatch();
    if (ending_)
        close();
}

bool InputWindow::take(std::size_t bytes) {
    if (bytes > granted_bytes_)
        return false;
    granted_bytes_ -= bytes;
    return true;
}

void InputWindow::passed(std::size_t bytes) {
    passed_bytes_ += bytes;
    if (timer_ != 0 || bytes == 0)
        return;
    timer_ = loop_.arm(Millis{0}, [this] {
        timer_ = 0;
        const std::size_t again = std::exchange(passed_bytes_, 0);
        granted_bytes_ += again;
        grant_(static_cast<std::uint32_t>(again));
    });
}

}  // namespace atl::guest
