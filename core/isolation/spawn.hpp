// Starts a program of ours with nothing of the server in it: only the descriptors that are meant, its own
// session, no signal handlers, no core dumps, an end when the server ends. Both users of it are bwrap
// (bubblewrap_launcher.hpp) and the helper (fs-guard/helper_client.hpp).
//
// The child borrows the server's memory until it execs, as vfork(2) does, because copying page tables is
// slow; it enters its cgroup by clone3(2) CLONE_INTO_CGROUP, because joining by a write to cgroup.procs
// waits for a grace period of RCU: 7 to 20 ms in which the server would stand still.
// Side effect: once a child has changed its uid, the kernel marks this memory undumpable (prctl(2),
// PR_SET_DUMPABLE), so a server that is root leaves no core file. That is wanted: it holds keys.
// Not here: waiting for the end of what was started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "core/base/unique_fd.hpp"

namespace atl::isolation {

/// A folder that the child binds onto another, so that a uid without a path to the source can reach it.
struct StagedMount {
    std::string source;
    std::string target;
};

enum class Priority : std::uint8_t { normal, background };

/// What the child does between clone and exec. Descriptors are borrowed.
struct ChildPlan {
    std::vector<int> fds;             // fds[i] becomes descriptor i; every other one is closed
    int group_fd = -1;                // directory of a cgroup v2 group to start in
    std::vector<int> join_fds;        // cgroup.procs files to write "0" to (see the cost above)
    std::uint32_t uid = 0;            // also the gid, without supplementary groups; 0 keeps the server's
    int mount_namespace = -1;         // to start in a copy of
    std::vector<StagedMount> staged;  // with `mount_namespace`, where both sides exist
    std::string cwd = "/";
    Priority priority = Priority::normal;
};

struct Spawned {
    pid_t pid = -1;
    base::UniqueFd pidfd;
};

/// Starts `program` (a path) with `args` after argv[0] and an empty environment. When it returns, the
/// program runs or nothing is left. Errors: sandbox_failed with the step that failed and its reason.
/// Precondition: called from the one thread of the server.
base::Result<Spawned> spawn(const base::Executor& executor, const std::string& program,
                            const std::vector<std::string>& args, const ChildPlan& plan);

}  // namespace atl::isolation
