#include "core/isolation/spawn.hpp"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/process/v2/posix/default_launcher.hpp>
#include <boost/process/v2/process.hpp>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "core/base/pidfd.hpp"
#include "core/isolation/child_setup.hpp"

namespace atl::isolation {
namespace {

namespace v2 = boost::process::v2;
using Handle = v2::basic_process<base::Executor>;

constexpr std::size_t k_child_stack_bytes = 64UL * 1024;

// One child at a time: the server has one thread and stands still until the child has exec'd.
alignas(64) std::byte child_stack[k_child_stack_bytes];

/// The start argument of the child.
struct ChildEntry {
    ChildSetup* setup;
    const char* program;
    const char* const* argv;
    const char* const* environment;
};

ATL_CHILD int child_main(void* opaque) noexcept {
    const auto* entry = static_cast<const ChildEntry*>(opaque);
    if (entry->setup->run()) {
        ::syscall(SYS_execve, entry->program, entry->argv, entry->environment);
        entry->setup->note(ChildStage::exec, errno);
    }
    ::syscall(SYS_exit_group, 127);
    return 127;
}

/// clone3(2) onto child_stack, which libc does not offer. The child never leaves the assembler.
long clone3_into(clone_args& args, ChildEntry& entry) noexcept {
    long result;
#if defined(__x86_64__)
    asm volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "mov %[entry], %%rdi\n\t"
        "call *%[main]\n\t"
        "hlt\n"
        "1:"
        : "=a"(result)
        : "a"(static_cast<long>(SYS_clone3)), "D"(&args),
          "S"(sizeof args), [main] "r"(&child_main), [entry] "r"(&entry)
        : "rcx", "r11", "memory", "cc");
    if (result < 0) {
        errno = static_cast<int>(-result);
        result = -1;
    }
#elif defined(__aarch64__)
    register long number asm("x8") = SYS_clone3;
    register long first asm("x0") = reinterpret_cast<long>(&args);
    register long second asm("x1") = sizeof args;
    asm volatile(
        "svc #0\n\t"
        "cbnz x0, 1f\n\t"
        "mov x0, %[entry]\n\t"
        "blr %[main]\n\t"
        "brk #1\n"
        "1:"
        : "+r"(first)
        : "r"(number), "r"(second), [main] "r"(&child_main), [entry] "r"(&entry)
        : "memory", "cc");
    result = first;
    if (result < 0) {
        errno = static_cast<int>(-result);
        result = -1;
    }
#else
    (void)args;
    (void)entry;
    errno = ENOSYS;
    result = -1;
#endif
    return result;
}

/// A launcher in the sense of Process v2. Where clone3(2) is refused (the default filters of some container
/// engines), clone(2) does the same but for the group, which the child then joins by itself.
class CloneLauncher : public v2::posix::default_launcher {
  public:
    explicit CloneLauncher(int group_fd) : group_fd_(group_fd) {}

    template <class Args>
    Handle operator()(const base::Executor& executor, boost::system::error_code& error,
                      const v2::filesystem::path& executable, Args&& args, ChildSetup& setup) {
        ChildEntry entry{&setup, executable.c_str(), build_argv_(executable, std::forward<Args>(args)), env};
        pid = static_cast<int>(clone_child(entry));
        if (pid < 0) {
            error.assign(errno, boost::system::system_category());
            return Handle(executor);
        }
        return Handle(executor, pid);
    }

    int take_pidfd() noexcept { return std::exchange(pidfd_, -1); }

  private:
    long clone_child(ChildEntry& entry) {
        clone_args args{};
        args.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD;
        args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd_);
        args.exit_signal = SIGCHLD;
        args.stack = reinterpret_cast<std::uintptr_t>(child_stack);
        args.stack_size = sizeof child_stack;
        if (group_fd_ >= 0) {
            args.flags |= CLONE_INTO_CGROUP;
            args.cgroup = static_cast<std::uint64_t>(group_fd_);
        }
        const long child = clone3_into(args, entry);
        if (child >= 0 || (errno != ENOSYS && errno != EPERM))
            return child;
        if (group_fd_ >= 0) {
            group_procs_ = base::UniqueFd(::openat(group_fd_, "cgroup.procs", O_WRONLY | O_CLOEXEC));
            entry.setup->join_by_write(group_procs_.get());
        }
        return ::clone(&child_main, child_stack + sizeof child_stack,
                       CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &entry, &pidfd_);
    }

    int group_fd_;
    int pidfd_ = -1;
    base::UniqueFd group_procs_;
};

/// No handler of the server may run in the child, which shares its memory.
class AllSignalsBlocked {
  public:
    AllSignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    AllSignalsBlocked(const AllSignalsBlocked&) = delete;
    AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

/// A child with another uid makes the memory that it shares with the server undumpable, and with it the
/// server's /proc/self belong to the host's root, which a server in a user namespace is not (PR_SET_DUMPABLE
/// in prctl(2), proc(5)).
class DumpableKept {
  public:
    DumpableKept() : before_(::prctl(PR_GET_DUMPABLE)) {}
    ~DumpableKept() {
        if (before_ == 1)
            ::prctl(PR_SET_DUMPABLE, 1);
    }
    DumpableKept(const DumpableKept&) = delete;
    DumpableKept& operator=(const DumpableKept&) = delete;

  private:
    int before_;
};

base::Error failed(const std::string& what, int error_number) {
    return base::Error(base::Errc::sandbox_failed, base::errno_text(what, error_number));
}

}  // namespace

base::Result<Spawned> spawn(const base::Executor& executor, const std::string& program,
                            const std::vector<std::string>& args, const ChildPlan& plan) {
    assert(plan.fds.size() <= ChildSetup::k_max_fds);
    base::reap_what_ended();
    static constexpr const char* k_empty_environment[] = {nullptr};
    ChildSetup setup(plan, ::getpid());
    CloneLauncher launcher(plan.group_fd);
    launcher.env = k_empty_environment;
    boost::system::error_code error;
    Handle handle(executor);
    {
        const AllSignalsBlocked blocked;
        const DumpableKept kept;
        handle = launcher(executor, error, v2::filesystem::path(program), args, setup);
    }
    Spawned spawned{launcher.pid, base::UniqueFd(launcher.take_pidfd())};
    if (error)
        return failed("clone", error.value());
    handle.detach();
    if (setup.failure().stage == ChildStage::none)
        return spawned;
    siginfo_t gone{};
    ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(spawned.pidfd.get()), &gone, WEXITED);
    return failed(what_failed(setup.failure(), plan, program), setup.failure().error_number);
}

}  // namespace atl::isolation
