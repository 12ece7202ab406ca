// Tells that the kernel refused a process to the members of a group for their limit: a change of `max` in
// pids.events. v2 announces it; on v1 it is looked at each second, as kernels from 6.11 on tell nobody there
// (kernel/cgroup/pids.c). A group at its limit changes it with each fork that is tried, so the watch rests
// a second after each change, and tells changes within the interval of a warning once, at its end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "cgroup/limit_files.hpp"
#include "core/base/clock.hpp"
#include "core/base/fd_watch.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::cgroup {

class ProcessWatch {
  public:
    /// `folder` outlives this. Begins a moment later, off the path of a create. A kernel that cannot tell is
    /// left unwatched.
    ProcessWatch(const base::Executor& executor, base::Timers& timers, ControllerFolder folder,
                 sandbox::ProcessWarning on_warning);
    ~ProcessWatch();
    ProcessWatch(const ProcessWatch&) = delete;
    ProcessWatch& operator=(const ProcessWatch&) = delete;

    /// True if a process was refused since the start and at most 1/k_crowded_share of the limit is free now,
    /// 1/k_refusing_share if a process was refused within k_refusal_memory.
    bool is_crowded() const;

  private:
    void begin();
    void await();
    void look();
    void rest(base::Millis time, std::function<void()> then);
    std::uint64_t refused() const;

    base::Executor executor_;
    base::Timers& timers_;
    ControllerFolder folder_;
    sandbox::ProcessWarning on_warning_;
    std::optional<base::FdWatch> events_;
    std::uint64_t refused_ = 0;  // as pids.events counts
    std::optional<base::SteadyTime> refused_at_;
    std::optional<base::SteadyTime> told_at_;
    bool is_untold_ = false;
    base::TimerId pause_ = 0;
};

}  // namespace atl::cgroup
