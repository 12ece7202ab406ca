// New namespaces, mounts and roots.
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/isolation/probe/probe.hpp"

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif

namespace atl::probe {
namespace {

constexpr unsigned long k_high_bit = 1UL << 40;

struct Namespace {
    const char* name;
    unsigned long flag;
};
constexpr Namespace k_namespaces[] = {
    {"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS},  {"pid", CLONE_NEWPID},      {"net", CLONE_NEWNET},
    {"ipc", CLONE_NEWIPC},   {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}};

long reap(long child) {
    if (child == 0)
        ::_exit(0);
    if (child > 0)
        ::waitpid(static_cast<pid_t>(child), nullptr, __WALL);
    return child;
}

long raw_clone(unsigned long flags) {
    return reap(::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

long raw_clone3(unsigned long flags) {
    clone_args arguments{};
    arguments.flags = flags;
    arguments.exit_signal = SIGCHLD;
    return reap(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

/// Each namespace together with a user namespace, which is how one without privilege gets it.
void namespaces(const Arguments&) {
    for (const Namespace& kind : k_namespaces) {
        const unsigned long flags = kind.flag | CLONE_NEWUSER;
        const std::string name = kind.name;
        tell_in_child("unshare/" + name, [flags] { return ::syscall(SYS_unshare, flags); });
        tell_in_child("clone/" + name, [flags] { return raw_clone(flags); });
        tell_in_child("clone-high/" + name, [flags] { return raw_clone(flags | k_high_bit); });
        tell_in_child("clone3/" + name, [flags] { return raw_clone3(flags); });
    }
}

/// Namespaces without a user namespace: they take capabilities of the caller.
void bare_namespaces(const Arguments&) {
    for (const Namespace& kind : k_namespaces) {
        tell_in_child(std::string("unshare/") + kind.name,
                      [&kind] { return ::syscall(SYS_unshare, kind.flag); });
        tell_in_child(std::string("clone/") + kind.name, [&kind] { return raw_clone(kind.flag); });
    }
}

/// A new process without any flag: shows that the calls as such work.
void plain_clones(const Arguments&) {
    tell_in_child("clone", [] { return raw_clone(0); });
    tell_in_child("clone3", [] { return raw_clone3(0); });
    tell_in_child("fork", [] { return reap(::fork()); });
}

void enter_namespaces(const Arguments&) {
    for (const char* name : {"ipc", "net", "uts"}) {
        tell_in_child(name, [name] {
            const int fd = ::open((std::string("/proc/self/ns/") + name).c_str(), O_RDONLY | O_CLOEXEC);
            return fd < 0 ? -1 : ::syscall(SYS_setns, fd, 0);
        });
    }
}

/// mounts FOLDER: tries to change its mounts. The order matters: where the attempts succeed, each builds on
/// the one before.
void mounts(const Arguments& words) {
    const char* folder = words.at(0).c_str();
    tell("bind", ::mount(folder, folder, nullptr, MS_BIND, nullptr));
    tell("remount", ::mount(nullptr, folder, nullptr, MS_REMOUNT | MS_BIND | MS_NOSUID, nullptr));
    tell("unmount", ::umount2(folder, MNT_DETACH));
    tell("tmpfs", ::mount("probe", folder, "tmpfs", 0, nullptr));
    tell("proc", ::mount("proc", folder, "proc", 0, nullptr));
    tell("propagation", ::mount(nullptr, "/", nullptr, MS_PRIVATE | MS_REC, nullptr));
    tell("fsopen", ::syscall(SYS_fsopen, "tmpfs", 0));
    tell("open_tree", ::syscall(SYS_open_tree, AT_FDCWD, folder, OPEN_TREE_CLONE));
    tell_in_child("chroot", [folder] { return static_cast<long>(::chroot(folder)); });
    if (::chdir(folder) != 0)
        give_up("cannot enter the folder");
    tell("pivot_root", ::syscall(SYS_pivot_root, ".", "."));
}

/// remount FOLDER...: takes away the mount's read-only flag.
void remount(const Arguments& folders) {
    for (const auto& folder : folders)
        tell(folder, ::mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_BIND, nullptr));
}

void put(const char* path, const std::string& text) {
    const int fd = ::open(path, O_WRONLY);
    if (fd < 0 || ::write(fd, text.data(), text.size()) < 0)
        give_up(std::string("cannot write ") + path);
    ::close(fd);
}

/// in-userns COMMAND...: as root of fresh namespaces of all kinds. The control for attempts that need
/// capabilities.
void in_userns(const Arguments& words) {
    const std::string uid = std::to_string(::geteuid());
    const std::string gid = std::to_string(::getegid());
    unsigned long flags = 0;
    for (const Namespace& kind : k_namespaces)
        flags |= kind.flag;
    if (::syscall(SYS_unshare, flags) != 0)
        give_up("no namespaces: " + outcome(-1));
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", "0 " + uid + " 1");
    put("/proc/self/gid_map", "0 " + gid + " 1");
    const pid_t child = ::fork();
    if (child == 0) {
        // A mount made here must not spread to the host.
        if (::mount(nullptr, "/", nullptr, MS_PRIVATE | MS_REC, nullptr) != 0 || !run_command(words))
            ::_exit(2);
        ::_exit(0);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0)
        give_up("the command in the namespaces failed");
}

/// in-userns-of PID COMMAND...: with all capabilities in the user namespace of another process, free of its
/// filters.
void in_userns_of(const Arguments& words) {
    const int fd = ::open(("/proc/" + words.at(0) + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::syscall(SYS_setns, fd, CLONE_NEWUSER) != 0)
        give_up("cannot enter the user namespace: " + outcome(-1));
    if (!run_command({words.begin() + 1, words.end()}))
        give_up("no such command");
}

}  // namespace

std::span<const Command> namespace_commands() {
    static constexpr Command k_commands[] = {{"namespaces", namespaces},
                                             {"bare-namespaces", bare_namespaces},
                                             {"plain-clones", plain_clones},
                                             {"enter-namespaces", enter_namespaces},
                                             {"mounts", mounts},
                                             {"remount", remount},
                                             {"in-userns", in_userns},
                                             {"in-userns-of", in_userns_of}};
    return k_commands;
}

}  // namespace atl::probe
