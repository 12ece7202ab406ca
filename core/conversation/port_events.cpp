#include "core/conversation/port_events.hpp"

#include <algorithm>
#include <utility>

#include "core/conversation/event_json.hpp"

namespace atl::conversation {

PortEvents::PortEvents(const base::Clock& clock, base::Timers& timers, Tell tell)
    : clock_(clock), timers_(timers), tell_(std::move(tell)) {}

void PortEvents::update(PortUrls listening) {
    listening_ = std::move(listening);
    if (timer_ == 0)
        tell_changes();
}

void PortEvents::close_all() {
    const PortUrls told = std::exchange(reported_, {});
    stop();
    for (const auto& [port, url] : told)
        tell_(EventType::port_closed, port_data(port));
    events_left_ -= std::min(events_left_, told.size());
}

void PortEvents::stop() {
    timers_.cancel(std::exchange(timer_, 0));
    listening_.clear();
    reported_.clear();
}

void PortEvents::tell_changes() {
    for (auto at = reported_.begin(); at != reported_.end();) {
        if (listening_.contains(at->first)) {
            ++at;
            continue;
        }
        if (!spend())
            return;
        const std::uint16_t port = at->first;
        at = reported_.erase(at);
        tell_(EventType::port_closed, port_data(port));
    }
    for (const auto& [port, url] : listening_) {
        const auto known = reported_.find(port);
        if (known != reported_.end() && known->second == url)
            continue;
        if (!spend())
            return;
        reported_[port] = url;
        tell_(EventType::port_opened, port_data(port, url));
    }
}

/// Returns false where no event is left. The rest is told when there is one.
bool PortEvents::spend() {
    const auto now = clock_.steady_now();
    const auto passed = static_cast<std::size_t>((now - counted_since_) / base::k_port_event_interval);
    if (passed >= base::k_port_event_burst - events_left_) {
        events_left_ = base::k_port_event_burst;
        counted_since_ = now;
    } else {
        events_left_ += passed;
        counted_since_ += passed * base::k_port_event_interval;
    }
    if (events_left_ > 0) {
        --events_left_;
        return true;
    }
    const auto wait = counted_since_ + base::k_port_event_interval - now;
    timer_ = timers_.arm(std::chrono::ceil<base::Millis>(wait), [this] {
        timer_ = 0;
        tell_changes();
    });
    return false;
}

}  // namespace atl::conversation
