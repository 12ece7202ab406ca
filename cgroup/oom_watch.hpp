// Tells in the loop that the kernel killed a member of a group for its memory limit: v2 by a change of
// memory.events, v1 by the eventfd of memory.oom_control. v1 speaks when the limit is met, just before the
// kill: the counter is then looked at again for a moment.
#pragma once

#include <functional>
#include <optional>

#include "cgroup/limit_files.hpp"
#include "core/base/clock.hpp"
#include "core/base/fd_watch.hpp"

namespace atl::cgroup {

class OomWatch {
  public:
    /// `folder` outlives this; `on_oom` is called at most once. A kernel that cannot tell is left unwatched:
    /// the end of the processes then finds the counter.
    OomWatch(const base::Executor& executor, base::Timers& timers, ControllerFolder folder,
             std::function<void()> on_oom);
    ~OomWatch();
    OomWatch(const OomWatch&) = delete;
    OomWatch& operator=(const OomWatch&) = delete;

    /// v1: true from the kernel's first word until the counter has told, or has not for a while. v2: always.
    /// There the counter is right before a process is killed, but its change may be told 10 ms later (the
    /// kernel's cgroup_file_notify()): a turn can end before.
    bool is_suspicious() const noexcept { return suspicious_ || (folder_.version == 2 && events_); }

  private:
    void await();
    void on_event();
    void look();

    base::Timers& timers_;
    ControllerFolder folder_;
    std::function<void()> on_oom_;
    std::optional<base::FdWatch> events_;
    bool suspicious_ = false;
    int looks_ = 0;  // since the kernel's word
    base::TimerId again_ = 0;
};

}  // namespace atl::cgroup
