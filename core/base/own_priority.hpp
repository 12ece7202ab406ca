// The place of this process among others: the server's loop computes little, and others wait for it.
#pragma once

#include <sched.h>
#include <sys/resource.h>

namespace atl::base {

/// Gives this process the nice value `nice` (setpriority(2)). Its children get nice 0 if `nice` is negative
/// (sched(7), "The reset-on-fork flag"). False, and nothing is changed, if the kernel refuses: a lower nice
/// value takes root or CAP_SYS_NICE.
inline bool set_own_priority(int nice) noexcept {
    if (::setpriority(PRIO_PROCESS, 0, nice) != 0)
        return false;
    const sched_param unused{};
    return ::sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &unused) == 0;
}

}  // namespace atl::base
