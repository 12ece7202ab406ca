// Freezes and thaws all members of one group (cgroup-v2.rst, cgroup.freeze; cgroup-v1/freezer-subsystem.rst).
// A freeze takes until each member reaches a point where it can stop: v2 reports the end in cgroup.events, v1
// has to be polled. A thaw takes no time.
// Invariant: after an error the members run on.
#pragma once

#include <functional>
#include <optional>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/fd_watch.hpp"

namespace atl::cgroup {

class Freezer {
  public:
    using Done = std::function<void(base::Result<void>)>;

    /// `folder` of a group that can be frozen outlives this.
    Freezer(base::Executor executor, base::Timers& timers, int folder, int version)
        : executor_(executor), timers_(timers), folder_(folder), version_(version) {}
    ~Freezer();
    Freezer(const Freezer&) = delete;
    Freezer& operator=(const Freezer&) = delete;

    /// `done` is called within base::k_freeze_deadline, from the loop. Errors: sandbox_failed. One freeze at
    /// a time.
    void freeze(Done done);
    /// Thaws all members, and cancels a freeze under way: its `done` is not called. Errors: sandbox_failed.
    base::Result<void> thaw();

  private:
    void look();
    bool all_stand_still();
    void await_change();
    void finish(const base::Result<void>& result);
    void stop_waiting();

    base::Executor executor_;
    base::Timers& timers_;
    int folder_;
    int version_;
    bool asked_ = false;  // members stand still, or are on their way to
    Done done_;
    std::optional<base::FdWatch> events_;  // cgroup.events of v2
    base::TimerId deadline_ = 0;
    base::TimerId again_ = 0;
    base::Millis pause_{0};
};

}  // namespace atl::cgroup
