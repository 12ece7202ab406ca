// The place of this process among others: the server's loop and the guest of each sandbox compute little and
// are waited for. Header only: the guest, which links nothing of the server's, has it too.
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
    /// The least that the kernel takes: one that wakes goes before another in the middle of a longer slice.
    /// For a process that needs less than that each time it wakes: whoever uses up its slice is passed over,
    /// and where all others compute, that is until the next tick of the clock, up to 4 ms later.
    brief_ns = 100'000,
    /// For one whose turns of work take longer: it is seldom passed over in the middle of one. Its deadlines
    /// are later, too, unless its nice value makes up for that.
    whole_turn_ns = 10'000'000,
};

/// Both at once, with sched_setattr(2). False, and nothing is changed, if it may not.
inline bool set_sched(int nice, Slice slice) noexcept {
    constexpr std::uint64_t k_reset_on_fork = 1;
    SchedAttr wanted;
    wanted.flags = k_reset_on_fork;
    wanted.nice = nice;
    wanted.runtime_ns = static_cast<std::uint64_t>(slice);
    return ::syscall(SYS_sched_setattr, 0, &wanted, 0) == 0;
}

/// Only the slice, at the nice value that this process has; nothing where it has another policy than the
/// usual one.
inline void set_own_slice(Slice slice) noexcept {
    if (::sched_getscheduler(0) == SCHED_OTHER)
        set_sched(::getpriority(PRIO_PROCESS, 0), slice);
}

/// Gives this process the nice value `nice` (setpriority(2)) and that slice. What it starts has the kernel's
/// slice, and nice 0 if this one is below (sched(7), "The reset-on-fork flag"). False if it may not, then
/// it has only the slice: nice values below the present one are root's, or take CAP_SYS_NICE.
inline bool set_own_priority(int nice, Slice slice) noexcept {
    if (set_sched(nice, slice))
        return true;
    set_own_slice(slice);
    return false;
}

}  // namespace atl::base
