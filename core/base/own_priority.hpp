// The place of this process among others: the server's loop and the guest of each sandbox compute little, and
// others wait for them. Header only: the guest, which links nothing of the server's, has it too.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace atl::base {

/// sched_setattr(2) in its first version. libc has neither it nor a wrapper, and linux/sched/types.h does not
/// go with sched.h.
struct SchedAttr {
    std::uint32_t size = 48;
    std::uint32_t policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 0;
    std::uint64_t deadline_ns = 0;
    std::uint64_t period_ns = 0;
};
static_assert(sizeof(SchedAttr) == 48);

/// How long a process may compute before the kernel looks for another, since Linux 6.12
/// (Documentation/scheduler/sched-eevdf.rst). Its share of the processor is the nice value's alone.
enum class Slice : std::uint64_t {
    /// The shortest slice that the kernel accepts: a process that wakes runs before another in the middle of
    /// a longer slice. For a process that computes less than that each time it wakes. A process that uses up
    /// its slice loses the processor; on a busy processor it waits until the next tick, up to 4 ms.
    brief_ns = 100'000,
    /// For a process whose turns of work take longer: it is seldom preempted in the middle of a turn. Its
    /// deadlines are later, too, unless its nice value makes up for that.
    whole_turn_ns = 10'000'000,
};

/// Sets the nice value and the slice with one sched_setattr(2). False, and nothing is changed, if the kernel
/// refuses.
inline bool set_sched(int nice, Slice slice) noexcept {
    constexpr std::uint64_t k_reset_on_fork = 1;
    SchedAttr wanted;
    wanted.flags = k_reset_on_fork;
    wanted.nice = nice;
    wanted.runtime_ns = static_cast<std::uint64_t>(slice);
    return ::syscall(SYS_sched_setattr, 0, &wanted, 0) == 0;
}

/// Sets only the slice and keeps the nice value. Does nothing if the process has another policy than
/// SCHED_OTHER.
inline void set_own_slice(Slice slice) noexcept {
    if (::sched_getscheduler(0) == SCHED_OTHER)
        set_sched(::getpriority(PRIO_PROCESS, 0), slice);
}

/// Gives this process the nice value `nice` (setpriority(2)) and `slice`. Its children get the kernel's
/// slice, and nice 0 if `nice` is negative (sched(7), "The reset-on-fork flag"). False if the kernel refuses
/// the nice value; then only the slice is set: a lower nice value takes root or CAP_SYS_NICE.
inline bool set_own_priority(int nice, Slice slice) noexcept {
    if (set_sched(nice, slice))
        return true;
    set_own_slice(slice);
    return false;
}

}  // namespace atl::base
