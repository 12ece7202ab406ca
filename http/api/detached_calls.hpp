// Calls whose client has left, but whose reply matters all the same: what they change is told to the
// conversation. Each ends by itself, within the deadlines of calls. Not here: what a reply means.
#pragma once

#include <list>
#include <memory>

#include "core/base/clock.hpp"
#include "core/base/shares.hpp"
#include "core/plain/operation_limits.hpp"
#include "http/api/guest_call.hpp"

namespace atl::http {

class DetachedCalls {
  public:
    DetachedCalls(base::Timers& timers, unsigned user_share_percent)
        : timers_(timers), places_(k_spec, user_share_percent) {}
    ~DetachedCalls() { timers_.cancel(sweep_); }
    DetachedCalls(const DetachedCalls&) = delete;
    DetachedCalls& operator=(const DetachedCalls&) = delete;

    /// Keeps `call`, in a sandbox of `user`, until its reply. Beyond k_max_unattended_calls of all, or the
    /// share of the user, the call is given up.
    void keep(std::unique_ptr<GuestCall> call, const base::ShareHolder& user);
    std::size_t size() const noexcept { return calls_.size(); }

  private:
    struct Kept {
        std::unique_ptr<GuestCall> call;
        base::Share place;
        bool is_over = false;
    };

    /// Nobody is told of it: the client has left.
    static constexpr base::BudgetSpec k_spec{"unattended_calls",
                                             "calls",
                                             "",
                                             base::k_max_unattended_calls,
                                             base::k_unattended_calls_user_floor,
                                             {}};

    base::Timers& timers_;
    base::Budget places_;
    base::TimerId sweep_ = 0;
    std::list<Kept> calls_;
};

}  // namespace atl::http
