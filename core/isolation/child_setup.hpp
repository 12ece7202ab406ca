// Runs a ChildPlan between clone and exec. A child of the server runs it in the server's memory on a stack of
// its own: raw system calls only, no allocation, no lock, no libc wrapper that looks at threads (setresuid(3)
// of libc would signal the server's). All data that it needs is prepared before the clone. Not here: the
// clone itself (spawn.cpp).
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>

#include "core/isolation/child_failure.hpp"
#include "core/isolation/child_plan.hpp"

// The sanitizer's shadow of the child's stack would outlive the child.
#if defined(__SANITIZE_ADDRESS__)
#define ATL_CHILD [[gnu::no_sanitize("address", "undefined")]]
#else
#define ATL_CHILD
#endif

namespace atl::isolation {

/// A child's plan as plain memory. Lives in the parent's frame until the child has exec'd.
class ChildSetup {
  public:
    static constexpr std::size_t k_max_fds = 16;

    /// `plan` must outlive this object; the child ends with `parent`. Precondition: at most k_max_fds
    /// descriptors.
    ChildSetup(const ChildPlan& plan, pid_t parent) : plan_(plan), parent_(parent) {}

    /// Before the clone: the child also joins by `procs_fd` (cgroup.procs; negative: it fails).
    void join_by_write(int procs_fd) noexcept { group_procs_ = procs_fd, joins_by_write_ = true; }
    /// Runs in the child. False: failure() names the failed step; the caller ends the child.
    bool run() noexcept;
    void note(ChildStage stage, int error_number, std::size_t index = 0) noexcept;
    const ChildFailure& failure() const noexcept { return failure_; }

  private:
    bool join_group() noexcept;
    bool lead_session() noexcept;
    bool set_limits() noexcept;
    bool limit_core_dumps() noexcept;
    bool offer_to_oom_killer() noexcept;
    bool stage_mounts() noexcept;
    bool stage_one(std::size_t index) noexcept;
    bool bind_one(std::size_t index) noexcept;
    bool arrange_descriptors() noexcept;
    bool change_identity() noexcept;
    bool bind_to_parent() noexcept;
    bool lower_priority() noexcept;
    bool reset_signals() noexcept;
    bool check(long result, ChildStage stage, std::size_t index = 0) noexcept;

    const ChildPlan& plan_;
    pid_t parent_;
    int group_procs_ = -1;
    bool joins_by_write_ = false;
    ChildFailure failure_;
};

}  // namespace atl::isolation
