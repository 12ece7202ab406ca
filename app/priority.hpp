// The server's own priority: its one loop serves everybody, so it goes before what sandboxes compute.
#pragma once

namespace atl::app {

/// Gives this process the nice value `nice` (setpriority(2)), and what it starts the one it had, if that was
/// 0 (sched(7), "The reset-on-fork flag"). False if it may not: values below 0 are root's, or take
/// CAP_SYS_NICE.
bool set_own_priority(int nice);

}  // namespace atl::app
