#include "bridge/agents/agent_input.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

namespace atl::guest {

void AgentInput::write(std::string_view lines) {
    if (!pipe_ || closing_)
        return;
    if (queue_.size() - sent_bytes_ + lines.size() > k_max_agent_input_bytes)
        return broken("did not read its input");
    queue_.erase(0, std::exchange(sent_bytes_, 0));
    queue_.append(lines);
    if (!waiting_)
        flush();
}

void AgentInput::close_when_written() {
    closing_ = true;
    if (queue_.empty())
        close();
}

void AgentInput::close() {
    loop_.cancel(broken_timer_);
    if (waiting_)
        loop_.remove(pipe_.get());
    waiting_ = false;
    pipe_.reset();
    queue_ = {};
    sent_bytes_ = 0;
}

void AgentInput::on_ready(std::uint32_t) {
    flush();
}

void AgentInput::flush() {
    while (sent_bytes_ < queue_.size()) {
        const ssize_t size = ::write(pipe_.get(), queue_.data() + sent_bytes_, queue_.size() - sent_bytes_);
        if (size < 0)
            return errno == EAGAIN || errno == EINTR ? wait() : broken("closed its input");
        sent_bytes_ += static_cast<std::size_t>(size);
    }
    queue_ = {};
    sent_bytes_ = 0;
    if (closing_)
        return close();
    if (waiting_)
        loop_.remove(pipe_.get());
    waiting_ = false;
}

void AgentInput::wait() {
    if (!waiting_)
        waiting_ = loop_.add(pipe_.get(), EPOLLOUT, *this);
    if (!waiting_)
        broken("has an input that cannot be watched");
}

void AgentInput::broken(const char* why) {
    close();
    broken_timer_ = loop_.arm(Millis{0}, [this, why] { on_broken_(why); });
}

}  // namespace atl::guest
