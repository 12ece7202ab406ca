// The way of reports of requests: counters, events in the log of the conversation or
// of the sandbox (egress_events.hpp), and lines of --egress-log. Not here: when a request ends
// (egress_report.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.hpp"
#include "http/egress/egress_events.hpp"
#include "http/egress/egress_log.hpp"
#include "http/egress/egress_parts.hpp"

namespace atl::http {

/// Since the start of the server.
struct EgressCounters {
    std::uint64_t allowed = 0;                             // got through; each is counted when it has ended
    std::uint64_t failed = 0;                              // allowed, without an answer, or no request at all
    std::array<std::uint64_t, k_egress_reasons> denied{};  // by EgressReason
    std::uint64_t bytes_up = 0;                            // of those that have ended
    std::uint64_t bytes_down = 0;
    std::uint64_t look_ups_answered = 0;  // with an address
    std::uint64_t look_ups_failed = 0;
    std::size_t open = 0;  // now
};

/// Whose a sandbox is, as --egress-log tells it.
struct EgressOwner {
    std::optional<std::string> conversation_id{};
    std::optional<std::string> user_id{};
};

class EgressRecorder final : public EgressReports {
  public:
    /// All of them must outlive it.
    struct Ports {
        const base::Clock& clock;
        base::Timers& timers;
        EgressEvents::Tell tell;
        std::function<EgressOwner(const std::string& sandbox_id)> owner;
    };
    /// `log` may be null: no lines are written.
    EgressRecorder(Ports ports, std::unique_ptr<EgressLog> log)
        : clock_(ports.clock),
          owner_(std::move(ports.owner)),
          events_(ports.timers, std::move(ports.tell)),
          log_(std::move(log)) {}

    base::SteadyTime now() const override { return clock_.steady_now(); }
    void looked_up(bool was_found) override;
    void opened() override { ++counters_.open; }
    void ended(const EgressRequest& request, const EgressEnd& end) override;

    const EgressCounters& counters() const noexcept { return counters_; }
    /// Null: there is none.
    EgressLog* log() const noexcept { return log_.get(); }

  private:
    void count(const EgressEnd& end);
    void tell(const EgressRequest& request, const EgressEnd& end);
    std::string line(const EgressRequest& request, const EgressEnd& end) const;

    const base::Clock& clock_;
    const std::function<EgressOwner(const std::string& sandbox_id)> owner_;
    EgressEvents events_;
    const std::unique_ptr<EgressLog> log_;
    EgressCounters counters_;
};

}  // namespace atl::http
