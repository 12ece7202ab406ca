// System calls with a large attack surface or power over the machine, terminals, and the calls of foreign
// ABIs.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

long io_uring_setup() {
    io_uring_params parameters{};
    return ::syscall(SYS_io_uring_setup, 1, &parameters);
}

// An array map needs no privilege where the kernel allows unprivileged maps.
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

sock_filter allow_all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
const sock_fprog allow_all_program{1, &allow_all};

long attach(int family, int option) {
    const int fd = ::socket(family, SOCK_DGRAM, 0);
    return ::setsockopt(fd, SOL_SOCKET, option, &allow_all_program, sizeof allow_all_program);
}

long install(long flags) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &allow_all_program);
}

/// Every way to have a filter compiled by the kernel that needs no privilege. One filter each, gone with its
/// process.
void filters(const Arguments&) {
    tell_in_child("attach-unix", [] { return attach(AF_UNIX, SO_ATTACH_FILTER); });
    tell_in_child("attach-inet", [] { return attach(AF_INET, SO_ATTACH_FILTER); });
    tell_in_child("attach-netlink", [] {
        const int fd = ::socket(AF_NETLINK, SOCK_RAW, 0);
        return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &allow_all_program, sizeof allow_all_program);
    });
    tell_in_child("reuseport", [] {
        const int one = 1;
        const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
        ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
        return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &allow_all_program,
                            sizeof allow_all_program);
    });
    tell_in_child("seccomp", [] { return install(0); });
    tell_in_child("seccomp-listener", [] { return install(SECCOMP_FILTER_FLAG_NEW_LISTENER); });
    tell_in_child("prctl", [] {
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &allow_all_program);
    });
}

long module_on_tcp() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    // ENOENT where there is no such module: the kernel looked for it.
    const long result = ::setsockopt(fd, IPPROTO_TCP, TCP_ULP, "atoll", sizeof "atoll");
    return result != 0 && errno == ENOENT ? 0 : result;
}

long line_discipline() {
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
    const int plain = 0;
    return ::ioctl(master, TIOCSETD, &plain);
}

long descriptor_of_other() {
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const long pidfd = ::syscall(SYS_pidfd_open, child, 0);
    const long got = ::syscall(SYS_pidfd_getfd, pidfd, 1, 0);
    const int error = errno;
    ::kill(child, SIGKILL);
    errno = error;
    return got;
}

long advise_other() {
    static char page[2 * 4096];
    const iovec range{page + 4096 - reinterpret_cast<std::uintptr_t>(page) % 4096, 4096};
    const long pidfd = ::syscall(SYS_pidfd_open, ::getpid(), 0);
    return ::syscall(SYS_process_madvise, pidfd, &range, 1, MADV_COLD, 0);
}

/// ENOMEM where the host has none.
long map_huge_pages() {
    void* const pages = ::mmap(nullptr, 2UL * 1024 * 1024, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    return pages == MAP_FAILED ? -1 : 0;
}

/// The calls that tell whether a page of a file is in memory, each on something that is.
void page_cache(const Arguments&) {
    tell_in_child("read-nowait", [] {
        int pair[2];
        char byte = 'x';
        const iovec into{&byte, 1};
        if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || ::write(pair[0], &byte, 1) != 1)
            give_up("no socket pair");
        return static_cast<long>(::preadv2(pair[1], &into, 1, -1, RWF_NOWAIT));
    });
    tell_in_child("cachestat", [] {
        constexpr long k_cachestat = 451;
        unsigned long range[2] = {0, 4096};
        unsigned long about[8] = {};
        return ::syscall(k_cachestat, ::memfd_create("atoll-probe", 0), range, about, 0);
    });
}

struct KeptOption {
    const char* name;
    int level;
    int option;
};
// linux/in6.h, linux/tcp.h, linux/in.h; the kernel charges the memory of these options to no cgroup.
constexpr KeptOption k_kept_options[] = {{"ipv6-2292pktoptions", IPPROTO_IPV6, 6},
                                         {"ipv6-flowlabel", IPPROTO_IPV6, 32},
                                         {"ipv6-hopopts", IPPROTO_IPV6, 54},
                                         {"ipv6-rthdrdstopts", IPPROTO_IPV6, 55},
                                         {"ipv6-rthdr", IPPROTO_IPV6, 57},
                                         {"ipv6-dstopts", IPPROTO_IPV6, 59},
                                         {"ipv6-join", IPPROTO_IPV6, 20},
                                         {"ipv6-anycast", IPPROTO_IPV6, 27},
                                         {"ipv6-mcast-join", IPPROTO_IPV6, 42},
                                         {"ipv6-mcast-source", IPPROTO_IPV6, 46},
                                         {"tcp-md5sig", IPPROTO_TCP, 14},
                                         {"tcp-md5sig-ext", IPPROTO_TCP, 32},
                                         {"tcp-ao", IPPROTO_TCP, 38},
                                         {"zerocopy", SOL_SOCKET, 60}};

/// With a value that is too short for any of them: EINVAL or the like from a kernel that was asked, OK for a
/// switch.
long option_answer(int level, int option) {
    const int fd = ::socket(AF_INET6, SOCK_STREAM, 0);
    const int on = 1;
    return ::setsockopt(fd, level, option, &on, sizeof on);
}

/// Calls that are allowed, with arguments that are not.
void argument_gaps(const Arguments&) {
    tell_in_child("mptcp", [] { return ::syscall(SYS_socket, AF_INET, SOCK_STREAM, 262); });
    tell_in_child("smc", [] { return ::syscall(SYS_socket, AF_INET, SOCK_STREAM, 256); });
    tell_in_child("tcp", [] { return ::syscall(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_TCP); });
    tell_in_child("tcp-ulp", module_on_tcp);
    for (const auto& [name, level, option] : k_kept_options)
        tell_in_child(name, [level, option] { return option_answer(level, option); });
    tell_in_child("line-discipline", line_discipline);
    tell_in_child("pidfd-getfd", descriptor_of_other);
    tell_in_child("process-madvise", advise_other);
    tell_in_child("huge-file", [] { return ::memfd_create("atoll-probe", MFD_HUGETLB); });
    tell_in_child("huge-pages", map_huge_pages);
    tell_in_child("io-setup", [] {
        aio_context_t context = 0;
        return ::syscall(SYS_io_setup, 1, &context);
    });
}

std::string core_limit_now() {
    rlimit limit{};
    if (::syscall(SYS_prlimit64, 0, RLIMIT_CORE, nullptr, &limit) != 0)
        return outcome(-1);
    return std::to_string(limit.rlim_cur) + "," + std::to_string(limit.rlim_max);
}

/// Tries each way to set the limit of core dumps to 0, then reads the limit.
void core_limit(const Arguments&) {
    const rlimit none{0, 0};
    say("before", core_limit_now());
    tell("setrlimit", ::syscall(SYS_setrlimit, RLIMIT_CORE, &none));
    tell("prlimit", ::syscall(SYS_prlimit64, 0, RLIMIT_CORE, &none, nullptr));
    tell("prlimit-high", ::syscall(SYS_prlimit64, 0, RLIMIT_CORE | k_high_half, &none, nullptr));
    say("after", core_limit_now());
}

#if defined(__x86_64__)
void foreign_abi(const Arguments&) {
    tell_in_child("i386", [] {
        long result = 20;  // getpid of i386
        asm volatile("int $0x80" : "+a"(result) : : "memory");
        return result;
    });
    // ENOSYS where the kernel has no x32. The test asks whether the caller survives the call.
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
    static constexpr Command k_commands[] = {{"surface", surface},
                                             {"machine", machine},
                                             {"terminal", terminal},
                                             {"foreign-abi", foreign_abi},
                                             {"filters", filters},
                                             {"page-cache", page_cache},
                                             {"argument-gaps", argument_gaps},
                                             {"core-limit", core_limit}};
    return k_commands;
}

}  // namespace atl::probe
