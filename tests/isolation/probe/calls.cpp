// System calls with a large attack surface or power over the machine, terminals, and the calls of foreign
// ABIs.
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

constexpr long k_high_half = 1L << 32;

long io_uring_setup() {
    io_uring_params parameters{};
    return ::syscall(SYS_io_uring_setup, 1, &parameters);
}

// An array map needs no privilege where the kernel lets everybody have one.
long bpf_map() {
    bpf_attr attributes{};
    attributes.map_type = BPF_MAP_TYPE_ARRAY;
    attributes.key_size = sizeof(int);
    attributes.value_size = sizeof(int);
    attributes.max_entries = 1;
    return ::syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes);
}

long perf_event_open() {
    perf_event_attr attributes{};
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.size = sizeof attributes;
    attributes.config = PERF_COUNT_SW_TASK_CLOCK;
    attributes.exclude_kernel = 1;
    return ::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
}

long add_key() {
    return ::syscall(SYS_add_key, "user", "atoll-probe", "x", 1, KEY_SPEC_PROCESS_KEYRING);
}
long keyctl() {
    return ::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1, 0, 0);
}
long userfaultfd() {
    return ::syscall(SYS_userfaultfd, O_CLOEXEC);
}

void surface(const Arguments&) {
    tell_in_child("io_uring_setup", io_uring_setup);
    tell_in_child("bpf", bpf_map);
    tell_in_child("keyctl", keyctl);
    tell_in_child("add_key", add_key);
    tell_in_child("userfaultfd", userfaultfd);
    tell_in_child("perf_event_open", perf_event_open);
}

struct Handle {
    unsigned size = 128;
    int type = 0;
    unsigned char bytes[128] = {};
};

long handle_of_root() {
    Handle handle;
    int mount = 0;
    return ::syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", &handle, &mount, 0);
}

/// Calls that take hold of the machine, in ways that change nothing where they succeed.
void machine(const Arguments&) {
    constexpr int k_size_of_kernel_log = 10;
    tell_in_child("syslog", [] { return ::syscall(SYS_syslog, k_size_of_kernel_log, nullptr, 0); });
    tell_in_child("name_to_handle_at", handle_of_root);
    tell_in_child("fanotify_init", [] { return ::syscall(SYS_fanotify_init, FAN_CLASS_NOTIF, O_RDONLY); });
    tell_in_child("kcmp", [] { return ::syscall(SYS_kcmp, ::getpid(), ::getpid(), 0, 1, 1); });
    tell_in_child("sethostname", [] {
        char name[256] = {};
        return ::gethostname(name, sizeof name - 1) != 0 ? -1
                                                         : ::syscall(SYS_sethostname, name, ::strlen(name));
    });
    tell_in_child("adjtimex", [] {
        long nothing[64] = {};  // modes 0: only reads the clock's state
        return ::syscall(SYS_adjtimex, nothing);
    });
    tell_in_child("personality", [] { return ::syscall(SYS_personality, READ_IMPLIES_EXEC); });
}

/// A terminal of its own as the controlling one: without that TIOCSTI needs privilege everywhere.
long type_into_terminal(unsigned long request) {
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0 || ::setsid() < 0)
        give_up("no terminal");
    const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
    if (terminal < 0 || ::ioctl(terminal, TIOCSCTTY, 0) != 0)
        give_up("no controlling terminal");
    return ::syscall(SYS_ioctl, terminal, request, "x");
}

void terminal(const Arguments&) {
    tell_in_child("tiocsti", [] { return type_into_terminal(TIOCSTI); });
    tell_in_child("tiocsti-high", [] { return type_into_terminal(TIOCSTI | k_high_half); });
    // A harmless request with the same means: shows that terminals as such are there.
    tell_in_child("tiocoutq", [] {
        int queued = 0;
        const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
        return static_cast<long>(::ioctl(master, TIOCOUTQ, &queued));
    });
}

#if defined(__x86_64__)
void foreign_abi(const Arguments&) {
    tell_in_child("i386", [] {
        long result = 20;  // getpid of i386
        asm volatile("int $0x80" : "+a"(result) : : "memory");
        return result;
    });
    // ENOSYS where the kernel has no x32; what counts is who survives it.
    tell_in_child("x32", [] { return ::syscall(0x4000'0000 + SYS_getpid); });
    tell_in_child("native", [] { return ::syscall(SYS_getpid); });
}
#else
void foreign_abi(const Arguments&) {
    tell_in_child("native", [] { return ::syscall(SYS_getpid); });
}
#endif

}  // namespace

std::span<const Command> call_commands() {
    static constexpr Command k_commands[] = {
        {"surface", surface}, {"machine", machine}, {"terminal", terminal}, {"foreign-abi", foreign_abi}};
    return k_commands;
}

}  // namespace atl::probe
