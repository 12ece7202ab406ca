// Calls whose client has left, but whose reply matters all the same: what they change is told to the
// conversation. Each ends by itself, within the deadlines of calls. Not here: what a reply means.
#pragma once

#include <list>
#include <memory>

#include "core/base/clock.hpp"
#include "http/api/guest_call.hpp"

namespace atl::http {

class DetachedCalls {
  public:
    explicit DetachedCalls(base::Timers& timers) : timers_(timers) {}
    ~DetachedCalls() { timers_.cancel(sweep_); }
    DetachedCalls(const DetachedCalls&) = delete;
    DetachedCalls& operator=(const DetachedCalls&) = delete;

    /// Keeps `call` until its reply; beyond k_max_unattended_calls the call is given up.
    void keep(std::unique_ptr<GuestCall> call);

  private:
    struct Kept {
        std::unique_ptr<GuestCall> call;
        bool is_over = false;
    };

    base::Timers& timers_;
    base::TimerId sweep_ = 0;
    std::list<Kept> calls_;
};

}  // namespace atl::http
