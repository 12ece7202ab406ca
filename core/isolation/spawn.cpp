#include "core/isolation/spawn.hpp"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>

#include "core/base/pidfd.hpp"
#include "core/isolation/child_setup.hpp"

namespace atl::isolation {
namespace {

constexpr std::size_t k_child_stack_bytes = 64UL * 1024;

// All children share this stack, one at a time: the server's one thread stands still until the child's exec.
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

/// Returns the child's pid, or -1 and sets errno. Where clone3(2) is refused (the default filters of some
/// container engines), clone(2) does the same except for the group, which the child then joins by itself.
long clone_child(ChildEntry& entry, int group_fd, int& pidfd) {
    clone_args args{};
    args.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD;
    args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
    args.exit_signal = SIGCHLD;
    args.stack = reinterpret_cast<std::uintptr_t>(child_stack);
    args.stack_size = sizeof child_stack;
    if (group_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = static_cast<std::uint64_t>(group_fd);
    }
    const long child = clone3_into(args, entry);
    if (child >= 0 || (errno != ENOSYS && errno != EPERM))
        return child;
    base::UniqueFd group_procs;
    if (group_fd >= 0) {
        group_procs = base::UniqueFd(::openat(group_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC));
        entry.setup->join_by_write(group_procs.get());
    }
    return ::clone(&child_main, child_stack + sizeof child_stack,
                   CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &entry, &pidfd);
}

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
/// in prctl(2), proc(5)). Where the host has a fs.suid_dumpable of 2, it would make the memory of a server
/// that is undumpable dumpable for root.
class DumpableKept {
  public:
    DumpableKept() : before_(::prctl(PR_GET_DUMPABLE)) {}
    ~DumpableKept() {
        if (before_ == 0 || before_ == 1)
            ::prctl(PR_SET_DUMPABLE, before_);
    }
    DumpableKept(const DumpableKept&) = delete;
    DumpableKept& operator=(const DumpableKept&) = delete;

  private:
    int before_;
};

base::Error spawn_failed(const std::string& what, int error_number) {
    return base::Error(base::Errc::sandbox_failed, base::errno_text(what, error_number));
}

}  // namespace

base::Result<Spawned> spawn(const std::string& program, const std::vector<std::string>& args,
                            const ChildPlan& plan) {
    assert(plan.fds.size() <= ChildSetup::k_max_fds);
    base::reap_what_ended();
    static constexpr const char* k_empty_environment[] = {nullptr};
    std::vector<const char*> argv{program.c_str()};
    for (const std::string& arg : args)
        argv.push_back(arg.c_str());
    argv.push_back(nullptr);
    ChildSetup setup(plan, ::getpid());
    ChildEntry entry{&setup, program.c_str(), argv.data(), k_empty_environment};
    int pidfd = -1;
    long child = -1;
    int error_number = 0;
    {
        const AllSignalsBlocked blocked;
        const DumpableKept kept;
        child = clone_child(entry, plan.group_fd, pidfd);
        error_number = errno;
    }
    if (child < 0)
        return spawn_failed("clone", error_number);
    Spawned spawned{static_cast<pid_t>(child), base::UniqueFd(pidfd)};
    if (setup.failure().stage == ChildStage::none)
        return spawned;
    siginfo_t gone{};
    ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(spawned.pidfd.get()), &gone, WEXITED);
    return spawn_failed(what_failed(setup.failure(), plan, program), setup.failure().error_number);
}

}  // namespace atl::isolation
