#include "core/isolation/child_setup.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace atl::isolation {
namespace {

constexpr int k_first_spare_fd = 64;
constexpr rlim_t k_soft_open_files = 1024;
// Queued signals and POSIX timers (getrlimit(2), RLIMIT_SIGPENDING).
constexpr rlim_t k_pending_signals = 4096;
// ioprio_set(2); libc has no names for these.
constexpr int k_ioprio_who_process = 1;
constexpr int k_ioprio_idle = 3 << 13;
constexpr int k_ioprio_last_of_best_effort = 2 << 13 | 7;
constexpr int k_nice_low = 5;
constexpr int k_nice_background = 19;

// The kernel's struct of rt_sigaction(2), not libc's.
struct KernelSigaction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
};

ATL_CHILD void fd_path(int fd, char (&out)[32]) noexcept {
    constexpr char prefix[] = "/proc/self/fd/";
    std::size_t at = 0;
    for (; prefix[at] != 0; ++at)
        out[at] = prefix[at];
    char digits[12];
    std::size_t count = 0;
    for (int rest = fd; count == 0 || rest > 0; rest /= 10)
        digits[count++] = static_cast<char>('0' + rest % 10);
    while (count > 0)
        out[at++] = digits[--count];
    out[at] = 0;
}

}  // namespace

ATL_CHILD void ChildSetup::note(ChildStage stage, int error_number, std::size_t index) noexcept {
    failure_.stage = stage;
    failure_.error_number = error_number;
    failure_.index = index;
}

ATL_CHILD bool ChildSetup::check(long result, ChildStage stage, std::size_t index) noexcept {
    if (result >= 0)
        return true;
    note(stage, errno, index);
    return false;
}

ATL_CHILD bool ChildSetup::run() noexcept {
    // mkdir and mount below, and bwrap later, apply this umask.
    ::syscall(SYS_umask, 022);
    return join_group() && lead_session() && stage_mounts() &&
           check(::syscall(SYS_chdir, plan_.cwd.c_str()), ChildStage::working_directory) &&
           arrange_descriptors() && set_limits() && offer_to_oom_killer() && lower_priority() &&
           change_identity() && bind_to_parent() &&
           check(::syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), ChildStage::no_new_privileges) &&
           reset_signals();
}

ATL_CHILD bool ChildSetup::join_group() noexcept {
    return !joins_by_write_ || check(::syscall(SYS_write, group_procs_, "0", 1), ChildStage::join_group);
}

// A zygote leads one already, which setsid(2) refuses to do again.
ATL_CHILD bool ChildSetup::lead_session() noexcept {
    return ::syscall(SYS_getsid, 0) == ::syscall(SYS_getpid) ||
           check(::syscall(SYS_setsid), ChildStage::session);
}

// After the last new descriptor: the server may hold more than the child is allowed to have.
ATL_CHILD bool ChildSetup::set_limits() noexcept {
    rlimit limit{plan_.max_file_bytes, plan_.max_file_bytes};
    if (plan_.max_file_bytes > 0 &&
        !check(::syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &limit, nullptr), ChildStage::limits))
        return false;
    if (!limit_core_dumps())
        return false;
    // In a user namespace, pending signals count for the server's user, too (user_namespaces(7)).
    if (!check(::syscall(SYS_prlimit64, 0, RLIMIT_SIGPENDING, nullptr, &limit), ChildStage::limits))
        return false;
    if (limit.rlim_max > k_pending_signals) {
        limit = {k_pending_signals, k_pending_signals};
        if (!check(::syscall(SYS_prlimit64, 0, RLIMIT_SIGPENDING, &limit, nullptr), ChildStage::limits))
            return false;
    }
    if (!check(::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit), ChildStage::limits))
        return false;
    if (plan_.max_open_files > 0 && limit.rlim_max > plan_.max_open_files)
        limit.rlim_max = plan_.max_open_files;
    if (limit.rlim_cur > limit.rlim_max)
        limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_cur > k_soft_open_files)
        limit.rlim_cur = k_soft_open_files;
    return check(::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, nullptr), ChildStage::limits);
}

// 1 and not 0: only with 1 the kernel does not run the handler of a piped core_pattern, as root of the host
// (core(5)). A child that may not raise a limit of 0 keeps 0 (core_dump_risk() of host_probe.hpp tells the
// operator).
ATL_CHILD bool ChildSetup::limit_core_dumps() noexcept {
    rlimit limit{1, 1};
    if (::syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, nullptr) == 0)
        return true;
    limit = {0, 0};
    return check(::syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, nullptr), ChildStage::limits);
}

// Before the change of identity: a value written with CAP_SYS_RESOURCE is also the lowest that processes
// inside can set (proc(5), /proc/pid/oom_score_adj). A child that shares the server's memory changes only its
// own value, since it was made with CLONE_VFORK.
ATL_CHILD bool ChildSetup::offer_to_oom_killer() noexcept {
    if (plan_.oom_score_adj <= 0)
        return true;
    char digits[8];
    std::size_t at = sizeof digits;
    for (int rest = plan_.oom_score_adj; rest > 0 && at > 0; rest /= 10)
        digits[--at] = static_cast<char>('0' + rest % 10);
    const long file = ::syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
    const bool done = check(file, ChildStage::limits) &&
                      check(::syscall(SYS_write, file, digits + at, sizeof digits - at), ChildStage::limits);
    ::syscall(SYS_close, file);
    return done;
}

ATL_CHILD bool ChildSetup::stage_mounts() noexcept {
    if (plan_.mount_namespace < 0)
        return true;
    if (!check(::syscall(SYS_setns, plan_.mount_namespace, CLONE_NEWNS), ChildStage::mount_namespace) ||
        !check(::syscall(SYS_unshare, CLONE_NEWNS), ChildStage::mount_namespace))
        return false;
    for (std::size_t i = 0; i < plan_.staged.size(); ++i) {
        if (!stage_one(i))
            return false;
    }
    return true;
}

ATL_CHILD bool ChildSetup::stage_one(std::size_t index) noexcept {
    const StagedMount& staged = plan_.staged[index];
    switch (staged.kind) {
        case StagedKind::bind:
        case StagedKind::tree:
            break;
        case StagedKind::view:
            return check(::syscall(SYS_mount, "atoll", staged.target.c_str(), "overlay",
                                   MS_RDONLY | MS_NOSUID | MS_NOATIME, staged.options.c_str()),
                         ChildStage::staging_mount, index);
        case StagedKind::ptys:
            return check(::syscall(SYS_mount, "devpts", staged.target.c_str(), "devpts",
                                   MS_NOSUID | MS_NOEXEC, staged.options.c_str()),
                         ChildStage::staging_mount, index);
    }
    return bind_one(index);
}

// The source is opened in the new mount namespace, since mount(2) cannot bind a path of another namespace. It
// is bound by descriptor: the last name of the source must not be a symlink.
ATL_CHILD bool ChildSetup::bind_one(std::size_t index) noexcept {
    const StagedMount& staged = plan_.staged[index];
    const long source =
        ::syscall(SYS_openat, AT_FDCWD, staged.source.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    if (!check(source, ChildStage::staging_source, index))
        return false;
    char source_path[32];
    fd_path(static_cast<int>(source), source_path);
    const unsigned long depth = staged.kind == StagedKind::tree ? MS_REC : 0;
    return check(::syscall(SYS_mount, source_path, staged.target.c_str(), nullptr, MS_BIND | depth, nullptr),
                 ChildStage::staging_mount, index);
}

// First out of the way of the numbers to be filled, then into place; dup3(2) clears close-on-exec.
ATL_CHILD bool ChildSetup::arrange_descriptors() noexcept {
    std::array<int, k_max_fds> spare;
    const std::size_t count = plan_.fds.size();
    for (std::size_t i = 0; i < count; ++i) {
        const long fd = ::syscall(SYS_fcntl, plan_.fds[i], F_DUPFD_CLOEXEC, k_first_spare_fd);
        if (!check(fd, ChildStage::descriptors, i))
            return false;
        spare[i] = static_cast<int>(fd);
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (!check(::syscall(SYS_dup3, spare[i], static_cast<int>(i), 0), ChildStage::descriptors, i))
            return false;
    }
    return check(::syscall(SYS_close_range, static_cast<unsigned>(count), ~0U, 0), ChildStage::descriptors);
}

ATL_CHILD bool ChildSetup::lower_priority() noexcept {
    if (plan_.priority == Priority::normal)
        return true;
    const bool background = plan_.priority == Priority::background;
    // A kernel without I/O priorities may refuse this call: that costs only speed.
    ::syscall(SYS_ioprio_set, k_ioprio_who_process, 0,
              background ? k_ioprio_idle : k_ioprio_last_of_best_effort);
    // A batch process does not preempt the server when it wakes. The kernel may refuse this call,
    // too.
    const struct sched_param unused {};
    ::syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &unused);
    const int wanted = background ? k_nice_background : k_nice_low;
    // The system call tells 20 - nice (getpriority(2)). A server that is as low itself may not raise it.
    const long told = ::syscall(SYS_getpriority, PRIO_PROCESS, 0);
    if (told > 0 && 20 - told >= wanted)
        return true;
    return check(::syscall(SYS_setpriority, PRIO_PROCESS, 0, wanted), ChildStage::priority);
}

ATL_CHILD bool ChildSetup::change_identity() noexcept {
    if (plan_.uid == 0)
        return true;
    const auto id = static_cast<unsigned>(plan_.uid);
    return check(::syscall(SYS_setgroups, 0, nullptr), ChildStage::identity) &&
           check(::syscall(SYS_setresgid, id, id, id), ChildStage::identity) &&
           check(::syscall(SYS_setresuid, id, id, id), ChildStage::identity);
}

// After the change of identity, which clears the setting (prctl(2), PR_SET_PDEATHSIG).
ATL_CHILD bool ChildSetup::bind_to_parent() noexcept {
    if (!check(::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), ChildStage::parent_death))
        return false;
    if (::syscall(SYS_getppid) == parent_)
        return true;
    note(ChildStage::parent_death, ESRCH);
    return false;
}

ATL_CHILD bool ChildSetup::reset_signals() noexcept {
    KernelSigaction action{};
    action.handler = SIG_DFL;
    for (int number = 1; number < 32; ++number) {
        if (number != SIGKILL && number != SIGSTOP &&
            !check(::syscall(SYS_rt_sigaction, number, &action, nullptr, sizeof action.mask),
                   ChildStage::signals))
            return false;
    }
    const unsigned long nothing = 0;
    return check(::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &nothing, nullptr, sizeof nothing),
                 ChildStage::signals);
}

}  // namespace atl::isolation
