// The processes that this one can see, as /proc shows them (proc(5)), and signals that reach the process that
// was seen and no other. Nothing where /proc is that of another pid namespace.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>

namespace atl::guest {

struct SeenProcess {
    pid_t parent = 0;
    pid_t group = 0;
    pid_t session = 0;
    std::uint64_t threads = 0;
    std::uint64_t started = 0;  // in clock ticks since the boot: with the pid it names one process
};
using SeenProcesses = std::map<pid_t, SeenProcess>;

SeenProcesses see_processes();
/// To that process, unless it has been reaped since it was seen.
void signal_seen(pid_t pid, const SeenProcess& process, int number);

/// Sends the signal once to each process of the session, also to those that are forked meanwhile, as far as a
/// bounded number of passes finds them; not to those of the group `session` nor of the group `other`, which
/// had it. Precondition: the leader has not been reaped, so that its number still stands for the session.
void signal_session(pid_t session, pid_t other, int number);

/// Likewise to each descendant of `root`, whatever its group and session; not to `root`.
void signal_descendants(pid_t root, int number);

}  // namespace atl::guest
