#include "app/priority.hpp"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace atl::app {

// libc has no wrapper.
bool set_own_priority(int nice) {
    sched_attr wanted{};
    wanted.size = sizeof wanted;
    wanted.sched_policy = SCHED_NORMAL;
    wanted.sched_flags = SCHED_FLAG_RESET_ON_FORK;
    wanted.sched_nice = nice;
    return ::syscall(SYS_sched_setattr, 0, &wanted, 0) == 0;
}

}  // namespace atl::app
