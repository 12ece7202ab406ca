// Tells which ports are listened on, as they change. It looks soon after each command, then less and less
// often (base::k_first_port_look to base::k_last_port_look), and not at all while nothing runs but the guest:
// then nobody can begin to listen. What its looks may cost is bounded: PortBudget.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "bridge/guest/children.hpp"
#include "bridge/guest/listening_ports.hpp"
#include "bridge/guest/loop.hpp"
#include "core/plain/preview_limits.hpp"

namespace atl::guest {

/// Processor time that may be spent: a share of the time that passes, and a little at once.
class PortBudget {
  public:
    using Time = std::chrono::steady_clock::time_point;

    explicit PortBudget(Time now) : left_(base::k_port_watch_burst), counted_(now) {}
    /// How long until something may be spent again; zero: now. What it costs may be more than is left.
    Millis wait(Time now);
    void spend(std::chrono::nanoseconds cost) { left_ -= cost; }

  private:
    std::chrono::nanoseconds left_;
    Time counted_;
};

/// Where it looks.
struct PortSources {
    std::function<std::optional<TcpCounts>()> counts = tcp_counts;
    std::function<std::vector<std::uint16_t>()> ports = listening_ports;
};

class PortWatch {
  public:
    /// False: not now; asked again.
    using Tell = std::function<bool(const std::vector<std::uint16_t>& ports)>;

    PortWatch(Loop& loop, const Children& children, PortSources sources = {});
    ~PortWatch() { loop_.cancel(timer_); }
    PortWatch(const PortWatch&) = delete;
    PortWatch& operator=(const PortWatch&) = delete;

    /// From now on `tell` is called when they change.
    void begin(Tell tell);
    /// A program may have been started. Cheap; nothing before begin().
    void stir();

  private:
    void look();
    void arm(Millis delay);

    Loop& loop_;
    const Children& children_;
    PortSources sources_;
    Tell tell_;  // null before begin()
    PortBudget budget_;
    Millis delay_;
    TimerId timer_ = 0;  // 0: rests
    std::optional<TcpCounts> counts_;
    PortBudget::Time read_{};  // when the tables were
    std::vector<std::uint16_t> seen_;
    std::vector<std::uint16_t> reported_;
};

}  // namespace atl::guest
