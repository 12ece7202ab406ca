#include "bridge/guest/loop.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <limits>

namespace atl::guest {

Loop::Loop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

bool Loop::add(int fd, std::uint32_t events, FdHandler& handler) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = &handler;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Loop::modify(int fd, std::uint32_t events, FdHandler& handler) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = &handler;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Loop::remove(int fd) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

TimerId Loop::arm(Millis delay, std::function<void()> fire) {
    timers_.push_back({++last_id_, std::chrono::steady_clock::now() + delay, std::move(fire)});
    return last_id_;
}

void Loop::cancel(TimerId id) {
    std::erase_if(timers_, [id](const Timer& timer) { return timer.id == id; });
}

void Loop::defer(std::function<void()> run) {
    deferred_.push_back(std::move(run));
}

void Loop::stop(int status) {
    stopped_ = true;
    status_ = status;
}

int Loop::run() {
    while (!stopped_) {
        epoll_event event{};
        if (epoll_wait(epoll_.get(), &event, 1, timeout_ms()) == 1)
            static_cast<FdHandler*>(event.data.ptr)->on_ready(event.events);
        run_deferred();
        if (!timers_.empty())
            fire_due();
    }
    return status_;
}

int Loop::timeout_ms() const {
    if (!deferred_.empty())
        return 0;
    if (timers_.empty())
        return -1;
    const auto first = std::min_element(timers_.begin(), timers_.end(),
                                        [](const Timer& a, const Timer& b) { return a.at < b.at; });
    const auto left = std::chrono::ceil<Millis>(first->at - std::chrono::steady_clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, std::numeric_limits<int>::max()));
}

void Loop::fire_due() {
    const auto now = std::chrono::steady_clock::now();
    for (;;) {
        const auto due = std::find_if(timers_.begin(), timers_.end(),
                                      [now](const Timer& timer) { return timer.at <= now; });
        if (due == timers_.end() || stopped_)
            return;
        const std::function<void()> fire = std::move(due->fire);
        timers_.erase(due);
        fire();
    }
}

void Loop::run_deferred() {
    if (deferred_.empty())
        return;
    std::vector<std::function<void()>> batch;
    batch.swap(deferred_);
    for (const auto& run : batch)
        run();
}

}  // namespace atl::guest
