// The events of a conversation's log about the ports that are listened on in its sandbox: `port_opened` and
// `port_closed`. The sandbox says which they are and may say anything, so there is a bound on the events:
// base::k_port_event_burst at once, then one each base::k_port_event_interval. Ports that open and close in
// between are not told. Internal to core/conversation.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/clock.hpp"
#include "core/conversation/types.hpp"
#include "core/plain/preview_limits.hpp"

namespace atl::conversation {

class PortEvents {
  public:
    using Tell = std::function<void(EventType type, const std::string& data)>;

    /// `clock` and `timers` must outlive it. `tell` writes the event.
    PortEvents(const base::Clock& clock, base::Timers& timers, Tell tell);
    ~PortEvents() { stop(); }
    PortEvents(const PortEvents&) = delete;
    PortEvents& operator=(const PortEvents&) = delete;

    /// Takes all ports that are listened on now. A port whose address changes is told again.
    void update(PortUrls listening);
    /// The generation is over: each port that was told is closed, at once and whatever was told before.
    void close_all();
    /// Nothing is told any more, and nothing is known.
    void stop();

  private:
    void tell_changes();
    bool spend();

    const base::Clock& clock_;
    base::Timers& timers_;
    Tell tell_;
    PortUrls listening_;
    PortUrls reported_;
    std::size_t events_left_ = base::k_port_event_burst;
    base::SteadyTime counted_since_{};  // since then more events are left
    base::TimerId timer_ = 0;
};

}  // namespace atl::conversation
