// Bounds the events that tell of requests on the way out of sandboxes, since a program inside makes as many
// requests as it likes. The first one of a kind (host, port, and reason or route) is told at once, what
// follows as a sum once in base::k_egress_notice_interval. Beyond base::k_max_egress_notices kinds in that
// time one is told, with the number of the others. Not here: the log that the events go to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "core/base/clock.hpp"
#include "core/conversation/types.hpp"

namespace atl::http {

class EgressEvents {
  public:
    using Tell = std::function<void(const std::string& sandbox_id, const conversation::EgressNotice& notice)>;

    /// `timers` must outlive it. Nothing is told once it is destroyed.
    EgressEvents(base::Timers& timers, Tell tell) : timers_(timers), tell_(std::move(tell)) {}
    ~EgressEvents();
    EgressEvents(const EgressEvents&) = delete;
    EgressEvents& operator=(const EgressEvents&) = delete;

    /// Counts a request.
    void add(const std::string& sandbox_id, conversation::EgressNotice one);
    /// Sandboxes that are remembered.
    std::size_t size() const noexcept { return told_.size(); }

  private:
    using Notice = conversation::EgressNotice;
    using Kind = std::tuple<std::string, std::uint16_t, std::string_view, std::string>;
    struct Told {
        std::map<Kind, Notice> sums;  // since the kind was told last; 0 requests: none
        std::optional<Notice> beyond;
        std::uint64_t omitted = 0;
        base::TimerId timer = 0;
    };

    void arm(const std::string& sandbox_id, Told& told);
    void tell_sums(const std::string& sandbox_id);

    base::Timers& timers_;
    const Tell tell_;
    std::map<std::string, Told> told_;  // by sandbox
};

}  // namespace atl::http
