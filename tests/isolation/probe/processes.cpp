// Other processes: seeing, signalling, tracing and looking into them.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

pid_t to_pid(const std::string& text) {
    return static_cast<pid_t>(std::stol(text));
}

/// wait: a process that stays until it is killed and allows every process of its uid to trace it.
void wait_for_end(const Arguments&) {
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    say("waiting", "OK");
    for (;;)
        ::pause();
}

/// signal NUMBER PID...
void send_signal(const Arguments& words) {
    const int number = std::stoi(words.at(0));
    for (std::size_t at = 1; at < words.size(); ++at)
        tell(words[at], ::kill(to_pid(words[at]), number));
}

// Only a stopped tracee can be detached (ptrace(2), PTRACE_DETACH).
long seize(pid_t pid) {
    if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0 ||
        ::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) != 0)
        return -1;
    ::waitpid(pid, nullptr, __WALL);
    return ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
}

long attach_process(pid_t pid) {
    if (::ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) != 0)
        return -1;
    ::waitpid(pid, nullptr, __WALL);
    return ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
}

// This program is not position-independent: in every copy of it this lies at the same place. In a process of
// another program that page may be absent, which is EFAULT.
char mark[16] = "probe";

long read_memory(pid_t pid) {
    char copy[sizeof mark];
    const iovec here{copy, sizeof copy};
    const iovec there{mark, sizeof mark};
    return ::process_vm_readv(pid, &here, 1, &there, 1, 0);
}

long take_descriptor(pid_t pid, int number) {
    const long process = ::syscall(SYS_pidfd_open, pid, 0);
    return process < 0 ? -1 : ::syscall(SYS_pidfd_getfd, process, number, 0);
}

long open_entry(pid_t pid, const char* entry, int flags) {
    return ::open(("/proc/" + std::to_string(pid) + "/" + entry).c_str(), flags | O_CLOEXEC);
}

long read_link(pid_t pid, const char* entry) {
    char target[PATH_MAX];
    return ::readlink(("/proc/" + std::to_string(pid) + "/" + entry).c_str(), target, sizeof target);
}

void inspect_pid(pid_t pid, int descriptor) {
    const std::string fd_entry = "fd/" + std::to_string(descriptor);
    tell("fd", open_entry(pid, "fd", O_RDONLY | O_DIRECTORY));
    tell("fd-entry", read_link(pid, fd_entry.c_str()));
    tell("mem-read", open_entry(pid, "mem", O_RDONLY));
    tell("mem-write", open_entry(pid, "mem", O_RDWR));
    tell("environ", open_entry(pid, "environ", O_RDONLY));
    tell("maps", open_entry(pid, "maps", O_RDONLY));
    tell("auxv", open_entry(pid, "auxv", O_RDONLY));
    tell("map_files", open_entry(pid, "map_files", O_RDONLY | O_DIRECTORY));
    tell("root", open_entry(pid, "root", O_RDONLY | O_DIRECTORY));
    tell("cwd", open_entry(pid, "cwd", O_RDONLY | O_DIRECTORY));
    tell("exe", read_link(pid, "exe"));
    tell("ns", read_link(pid, "ns/net"));
    tell("seize", seize(pid));
    tell("attach", attach_process(pid));
    tell("process_vm_readv", read_memory(pid));
    tell("pidfd_getfd", take_descriptor(pid, descriptor));
}

/// inspect PID DESCRIPTOR, or inspect child: of a child of its own, the control.
void inspect(const Arguments& words) {
    if (words.at(0) != "child")
        return inspect_pid(to_pid(words[0]), std::stoi(words.at(1)));
    const pid_t child = ::fork();
    if (child == 0) {
        for (;;)
            ::pause();
    }
    inspect_pid(child, 0);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
}

/// trace PID...: without the lines of inspect that need /proc.
void trace(const Arguments& pids) {
    for (const auto& pid : pids) {
        tell("seize/" + pid, seize(to_pid(pid)));
        tell("pidfd_open/" + pid, ::syscall(SYS_pidfd_open, to_pid(pid), 0));
        tell("process_vm_readv/" + pid, read_memory(to_pid(pid)));
    }
}

}  // namespace

std::span<const Command> process_commands() {
    static constexpr Command k_commands[] = {
        {"wait", wait_for_end}, {"signal", send_signal}, {"inspect", inspect}, {"trace", trace}};
    return k_commands;
}

}  // namespace atl::probe
