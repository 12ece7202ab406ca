// A program with all that it has started: its descendants, whatever process group or session they went to
// (timeout(1), `set -m`, setsid(1)). What has left its parents behind before the first signal, as a daemon
// does, is none of it. Not here: when which signal is sent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <utility>

#include "bridge/guest/proc_scan.hpp"

namespace atl::guest {

class ProcessTree {
  public:
    /// Sends the signal to the process group of `root` at once, then once to each descendant outside of it,
    /// also to those that are forked meanwhile, as far as a bounded number of passes finds them. Who was a
    /// descendant at an earlier call still is, with its children, its group and its session, whatever became
    /// of the processes between. Precondition: `root` is a child of this process that leads its group and has
    /// not been reaped.
    void signal(pid_t root, int number);

  private:
    using Name = std::pair<pid_t, std::uint64_t>;  // of a process: pid and start

    void take_members(pid_t root, const SeenProcesses& seen);

    std::set<Name> members_;
    std::set<pid_t> leaders_;  // of groups and sessions that members made
};

}  // namespace atl::guest
