// Starts a program of ours that inherits nothing from the server except the named descriptors. It has its own
// session, no signal handlers, no core dumps, and it ends when the server ends. Both users of it are bwrap
// (bubblewrap_launcher.hpp) and the helper (fs-guard/helper_client.hpp).
//
// The child borrows the server's memory until it execs, as vfork(2) does, because copying page tables is
// slow; it enters its cgroup by clone3(2) CLONE_INTO_CGROUP, because joining by a write to cgroup.procs waits
// for a grace period of RCU: 7 to 20 ms in which the server would stand still. On cgroup v1, where only that
// write can join, a zygote (zygote.hpp) waits instead of the server.
// The server's memory stays dumpable or not, as it was (prctl(2), PR_SET_DUMPABLE), also where the child
// changes its uid: app/memory_privacy.hpp says which it is.
// Not here: waiting for the end of the program.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/isolation/child_plan.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::isolation {

struct Spawned {
    pid_t pid = -1;
    base::UniqueFd pidfd;
};

/// Starts `program` (a path) with `args` after argv[0] and an empty environment. When it returns, the
/// program runs or nothing is left. Errors: sandbox_failed with the step that failed and its reason.
/// Precondition: called from the one thread of the server.
base::Result<Spawned> spawn(const std::string& program, const std::vector<std::string>& args,
                            const ChildPlan& plan);

}  // namespace atl::isolation
