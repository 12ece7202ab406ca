// The processes in one folder of a hierarchy: are there any, end them all. v2 does both by itself; v1 needs
// the freezer's help, or signals until no one is left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace atl::cgroup {

/// Kills every member of the group `folder` and of the groups below it, also members that are forked
/// meanwhile. Uses cgroup.kill; where that is missing (v1, and v2 before Linux 5.14), freezes the group if
/// possible and sends signals until no member is left. Safe to repeat.
void kill_members(int folder);

/// True if a process is left in the group: by cgroup.events, `populated`, or where that is missing (v1), by
/// cgroup.procs.
bool has_members(int folder);

/// The processes in the group, without the members of groups below it.
std::vector<pid_t> members_of(int folder);

/// Freezes or thaws the group (cgroup.freeze; v1: freezer.state). 0 or errno; freezing ends some time after.
int set_frozen(int folder, bool frozen);

/// The real uids of all members, from /proc/PID/status (proc(5)). A member that ends meanwhile may be missed.
std::vector<std::uint32_t> uids_of_members(int folder);

}  // namespace atl::cgroup
