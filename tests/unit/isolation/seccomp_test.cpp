// The filters, really loaded: each call is made in a child without them first (it must not fail the way the
// filter makes it fail), then in a child with them.
#include "core/isolation/seccomp.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "core/isolation/seccomp_calls.hpp"

namespace seccomp_test {

namespace {

using namespace atl;

std::vector<sock_filter> load(const base::UniqueFd& fd) {
    std::vector<sock_filter> program(8192);
    const ssize_t count = ::read(fd.get(), program.data(), program.size() * sizeof(sock_filter));
    REQUIRE(count > 0);
    program.resize(static_cast<std::size_t>(count) / sizeof(sock_filter));
    return program;
}

struct Outcome {
    int error_number = 0;  // of the call; 0: it succeeded
    int signal_number = 0;
};

enum class Filters { off, on };

/// Makes `call` in a child: a negative result is returned as its errno.
Outcome run(Filters filters, const std::function<long()>& call) {
    static const auto compiled = isolation::SeccompFilters::compile();
    REQUIRE(compiled.has_value());
    auto calls = load(compiled->open_calls());
    auto arguments = load(compiled->open_arguments());
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGSEGV, SIG_DFL);  // the test program's own handler would report
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        for (auto* program : {&calls, &arguments}) {
            const sock_fprog loaded{static_cast<unsigned short>(program->size()), program->data()};
            if (filters == Filters::on && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &loaded) != 0)
                ::_exit(1);
        }
        const int error_number = call() < 0 ? errno : 0;
        ::_exit(::write(ends[1], &error_number, sizeof error_number) == sizeof error_number ? 0 : 1);
    }
    ::close(ends[1]);
    Outcome outcome;
    int status = 0;
    const ssize_t count = ::read(ends[0], &outcome.error_number, sizeof outcome.error_number);
    ::close(ends[0]);
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status))
        outcome.signal_number = WTERMSIG(status);
    else
        REQUIRE(count == sizeof outcome.error_number);
    return outcome;
}

/// Refused by the filters with `error_number`, and not so without them.
bool is_refused(int error_number, const std::function<long()>& call) {
    const auto without = run(Filters::off, call);
    const auto with = run(Filters::on, call);
    INFO("without: " << without.error_number << ", with: " << with.error_number);
    CHECK(without.error_number != error_number);
    CHECK(with.signal_number == 0);
    return without.error_number != error_number && with.error_number == error_number;
}

bool is_allowed(const std::function<long()>& call) {
    const auto with = run(Filters::on, call);
    INFO("errno " << with.error_number);
    return with.error_number == 0 && with.signal_number == 0;
}

long raw_clone(unsigned long flags) {
    const long child = ::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (child == 0)
        ::_exit(0);
    return child;
}

long raw_socket(long family, long type, long protocol) {
    return ::syscall(SYS_socket, family, type, protocol);
}

constexpr long k_high_half = 1L << 32;

const sock_fprog& filter_that_allows_all() {
    static sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    static const sock_fprog program{1, &allow};
    return program;
}

/// setsockopt(2) on a socket of the family, with a filter as the option's value.
long set_option(int family, long level, long option) {
    const int fd = ::socket(family, family == AF_UNIX ? SOCK_DGRAM : SOCK_STREAM, 0);
    return ::syscall(SYS_setsockopt, fd, level, option, &filter_that_allows_all(), sizeof(sock_fprog));
}

/// The calls that container engines refuse by default to a process without capabilities, read from their
/// profiles: by name, if the call exists on the processors that this server supports.
constexpr std::string_view k_refused_by_container_engines[] = {
    // kernel modules and other kernels
    "create_module",
    "delete_module",
    "finit_module",
    "get_kernel_syms",
    "init_module",
    "kexec_file_load",
    "kexec_load",
    "query_module",
    // mounts, namespaces, file systems
    "chroot",
    "clone3",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "mount",
    "mount_setattr",
    "move_mount",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "pivot_root",
    "quotactl",
    "quotactl_fd",
    "setns",
    "sysfs",
    "umount2",
    "unshare",
    "ustat",
    // keys, tracing, other processes
    "add_key",
    "bpf",
    "fanotify_init",
    "kcmp",
    "keyctl",
    "lookup_dcookie",
    "perf_event_open",
    "pidfd_getfd",
    "process_madvise",
    "request_key",
    "userfaultfd",
    // rings
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    // the machine
    "_sysctl",
    "acct",
    "clock_settime",
    "ioperm",
    "iopl",
    "reboot",
    "setdomainname",
    "sethostname",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "uselib",
    "vhangup",
    // placement of memory
    "get_mempolicy",
    "mbind",
    "migrate_pages",
    "move_pages",
    "set_mempolicy",
    "set_mempolicy_home_node",
    // security modules
    "lsm_get_self_attr",
    "lsm_list_modules",
    "lsm_set_self_attr",
    // numbers without a call behind them
    "afs_syscall",
    "getpmsg",
    "putpmsg",
    "security",
    "tuxcall",
    "vserver",
};

/// Calls of the list above that a sandbox has, each with its reason.
struct Deviation {
    std::string_view call;
    const char* reason;
};
constexpr std::array<Deviation, 0> k_deviations = {};

}  // namespace

TEST_CASE("seccomp: a process can still do its work") {
    CHECK(is_allowed([] { return ::getpid(); }));
    CHECK(is_allowed([] { return ::open("/dev/null", O_RDWR); }));
    CHECK(is_allowed([] { return raw_clone(0); }));
    CHECK(is_allowed([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }));
    CHECK(is_allowed([] { return ::socket(AF_UNIX, SOCK_SEQPACKET, 0); }));
    CHECK(is_allowed([] { return ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP); }));
    CHECK(is_allowed([] { return ::socket(AF_INET, SOCK_DGRAM, 0); }));
    CHECK(is_allowed([] { return ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE); }));
    CHECK(is_allowed([] {
        int pair[2];
        return ::socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    }));
    CHECK(is_allowed([] {
        const int terminal = ::open("/dev/ptmx", O_RDWR | O_NOCTTY);
        int number = 0;
        return ::ioctl(terminal, TIOCGPTN, &number);
    }));
}

TEST_CASE("seccomp: namespaces and mounts are refused") {
    for (const unsigned long flag : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER,
                                     CLONE_NEWPID, CLONE_NEWNET})
        CHECK(run(Filters::on, [flag] { return raw_clone(flag); }).error_number == EPERM);
    CHECK(is_refused(EPERM, [] { return raw_clone(CLONE_NEWUSER); }));
    CHECK(is_refused(EPERM, [] { return ::unshare(CLONE_NEWUSER); }));
    CHECK(is_refused(EPERM, [] { return ::syscall(SYS_setns, -1, 0); }));
    CHECK(is_refused(EPERM, [] { return ::syscall(SYS_chroot, "/nowhere"); }));
    CHECK(run(Filters::on, [] {
              return ::syscall(SYS_mount, "a", "/nowhere", "tmpfs", 0, nullptr);
          }).error_number == EPERM);
    CHECK(run(Filters::on, [] { return ::syscall(SYS_pivot_root, "/a", "/b"); }).error_number == EPERM);
}

TEST_CASE("seccomp: clone3 is unknown, so that libc falls back to clone") {
    CHECK(is_refused(ENOSYS, [] { return ::syscall(SYS_clone3, nullptr, 0); }));
}

TEST_CASE("seccomp: a number that is not known is ENOSYS") {
    CHECK(run(Filters::on, [] { return ::syscall(9999); }).error_number == ENOSYS);
}

TEST_CASE("seccomp: Landlock is unknown: its rules would keep deleted files where nothing finds them") {
    const auto version = [] { return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1U); };
    if (run(Filters::off, version).error_number == 0)
        CHECK(is_refused(ENOSYS, version));
    for (const long number : {SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self})
        CHECK(run(Filters::on, [number] { return ::syscall(number, 0, 0, 0, 0); }).error_number == ENOSYS);
}

TEST_CASE("seccomp: no socket joins a multicast group, of IPv4 or IPv6") {
    for (const long option : {IP_ADD_MEMBERSHIP, IP_ADD_SOURCE_MEMBERSHIP, MCAST_JOIN_GROUP,
                              MCAST_JOIN_SOURCE_GROUP, MCAST_MSFILTER}) {
        INFO(option);
        CHECK(is_refused(ENODEV, [=] { return set_option(AF_INET, IPPROTO_IP, option); }));
        CHECK(is_refused(
            ENODEV, [=] { return set_option(AF_INET, IPPROTO_IP | k_high_half, option | k_high_half); }));
    }
    for (const long option : {MCAST_JOIN_GROUP, MCAST_JOIN_SOURCE_GROUP, MCAST_MSFILTER})
        CHECK(is_refused(ENODEV, [=] { return set_option(AF_INET6, IPPROTO_IPV6, option); }));
    CHECK(run(Filters::on, [] { return set_option(AF_INET, IPPROTO_IP, IP_DROP_MEMBERSHIP); }).error_number !=
          ENODEV);
}

TEST_CASE("seccomp: the large attack surfaces are refused") {
    CHECK(is_refused(EPERM, [] { return ::syscall(SYS_bpf, 0, nullptr, 0); }));
    CHECK(is_refused(EPERM, [] { return ::syscall(SYS_keyctl, 0, 0, 0, 0, 0); }));
    CHECK(is_refused(EPERM, [] { return ::syscall(SYS_add_key, "user", "x", "y", 1, -2); }));
    for (const long number : {SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter,
                              SYS_io_uring_register, SYS_request_key, SYS_kexec_load, SYS_init_module})
        CHECK(run(Filters::on, [number] { return ::syscall(number, 0, 0, 0, 0, 0); }).error_number == EPERM);
}

TEST_CASE("seccomp: socket families that no namespace isolates are refused") {
    for (const long family :
         {AF_VSOCK, AF_PACKET, AF_KEY, AF_ALG, AF_BLUETOOTH, AF_TIPC, AF_XDP, AF_RDS, 45, 1000})
        for (const long type : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET})
            CHECK(run(Filters::on, [=] { return raw_socket(family, type, 0); }).error_number == EPERM);
    CHECK(is_refused(EPERM, [] { return raw_socket(AF_VSOCK, SOCK_STREAM, 0); }));
}

TEST_CASE("seccomp: raw sockets and other netlink protocols are refused") {
    CHECK(is_refused(EPERM, [] { return raw_socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC); }));
    CHECK(run(Filters::on, [] { return raw_socket(AF_NETLINK, SOCK_DGRAM, NETLINK_AUDIT); }).error_number ==
          EPERM);
    for (const long family : {AF_INET, AF_INET6}) {
        CHECK(run(Filters::on, [=] { return raw_socket(family, SOCK_RAW, IPPROTO_ICMP); }).error_number ==
              EPERM);
        CHECK(run(Filters::on, [=] { return raw_socket(family, SOCK_PACKET, 0); }).error_number == EPERM);
        CHECK(run(Filters::on, [=] { return raw_socket(family, SOCK_STREAM, 132); }).error_number == EPERM);
    }
}

TEST_CASE("seccomp: a set upper half of an argument is no way around") {
    CHECK(run(Filters::on, [] { return raw_socket(AF_VSOCK | k_high_half, SOCK_STREAM, 0); }).error_number ==
          EPERM);
    CHECK(run(Filters::on, [] { return raw_socket(AF_INET, SOCK_RAW | k_high_half, 0); }).error_number ==
          EPERM);
    CHECK(run(Filters::on, [] {
              return raw_socket(AF_NETLINK | k_high_half, SOCK_RAW, NETLINK_GENERIC);
          }).error_number == EPERM);
    CHECK(run(Filters::on, [] {
              return ::syscall(SYS_ioctl, 0, TIOCSTI | k_high_half, nullptr);
          }).error_number == EPERM);
}

TEST_CASE("seccomp: nobody types into a terminal for others") {
    CHECK(is_refused(EPERM, [] { return ::ioctl(-1, TIOCSTI, "x"); }));
    CHECK(is_refused(EPERM, [] { return ::ioctl(-1, TIOCLINUX, "x"); }));
}

TEST_CASE("seccomp: only harmless personalities are taken on") {
    CHECK(is_allowed([] { return ::syscall(SYS_personality, 0xffff'ffffUL); }));
    CHECK(is_refused(ENOSYS, [] { return ::syscall(SYS_personality, 0x0040'0000UL); }));
}

TEST_CASE("seccomp: nothing is refused less than container engines refuse it") {
    for (const std::string_view call : k_refused_by_container_engines) {
        INFO(call);
        const bool deviates = std::ranges::any_of(
            k_deviations, [call](const Deviation& deviation) { return deviation.call == call; });
        CHECK(std::ranges::count(isolation::k_allowed_calls, call) == (deviates ? 1 : 0));
        const int number = ::seccomp_syscall_resolve_name(std::string(call).c_str());
        if (number < 0)  // not on this processor
            continue;
        // Without privilege, so that a call that goes through does nothing.
        const auto outcome = run(Filters::on, [number] {
            if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0)
                return -1L;
            return ::syscall(number, 0, 0, 0, 0, 0, 0);
        });
        const bool is_refused = outcome.error_number == EPERM || outcome.error_number == ENOSYS;
        CHECK(is_refused != deviates);
    }
}

TEST_CASE("seccomp: no filter can be attached to a socket") {
    for (const int family : {AF_UNIX, AF_INET}) {
        CHECK(is_refused(EPERM, [=] { return set_option(family, SOL_SOCKET, SO_ATTACH_FILTER); }));
        CHECK(run(Filters::off, [=] {
                  return set_option(family, SOL_SOCKET, SO_ATTACH_FILTER);
              }).error_number == 0);
        for (const long option : {SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF})
            CHECK(is_refused(EPERM, [=] { return set_option(family, SOL_SOCKET, option); }));
    }
    CHECK(is_refused(
        EPERM, [] { return set_option(AF_UNIX, SOL_SOCKET | k_high_half, SO_ATTACH_FILTER | k_high_half); }));
    CHECK(is_allowed([] { return set_option(AF_UNIX, SOL_SOCKET, SO_REUSEADDR); }));
}

TEST_CASE("seccomp: no further filter can be installed, as on a kernel that has none") {
    const auto by_seccomp = [](long operation, long flags) {
        return ::syscall(SYS_seccomp, operation, flags, &filter_that_allows_all());
    };
    for (const long flags : {0L, long{SECCOMP_FILTER_FLAG_NEW_LISTENER}, long{SECCOMP_FILTER_FLAG_TSYNC}}) {
        CHECK(run(Filters::off, [=] { return by_seccomp(SECCOMP_SET_MODE_FILTER, flags); }).error_number ==
              0);
        CHECK(is_refused(EINVAL, [=] { return by_seccomp(SECCOMP_SET_MODE_FILTER, flags); }));
    }
    CHECK(is_refused(EINVAL, [=] { return by_seccomp(SECCOMP_SET_MODE_FILTER | k_high_half, 0); }));
    CHECK(is_refused(EINVAL, [] {
        return ::syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter_that_allows_all());
    }));
    CHECK(is_refused(EINVAL, [] {
        return ::syscall(SYS_prctl, PR_SET_SECCOMP | k_high_half, SECCOMP_MODE_FILTER,
                         &filter_that_allows_all());
    }));
    CHECK(is_allowed([] { return ::prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER ? 0 : -1; }));
    CHECK(is_allowed([] { return ::prctl(PR_SET_NAME, "other"); }));
}

TEST_CASE("seccomp: of the Internet's protocols only ICMP, TCP and UDP can be asked for") {
    const std::set<long> allowed = {0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6};
    std::vector<long> protocols;
    for (long protocol = 0; protocol < 64; ++protocol)
        protocols.push_back(protocol);
    protocols.insert(protocols.end(),
                     {115, 132, 136, 143, 255, 256 /* SMC */, 262 /* MPTCP */, 0x106 + 512, -1});
    for (const long family : {AF_INET, AF_INET6}) {
        for (const long protocol : protocols) {
            INFO(family << " " << protocol);
            for (const int type : {int{SOCK_STREAM}, SOCK_DGRAM | SOCK_CLOEXEC}) {
                const int error =
                    run(Filters::on, [=] { return raw_socket(family, type, protocol); }).error_number;
                if (allowed.contains(protocol))
                    CHECK((error == 0 || error == EPROTONOSUPPORT || error == EACCES));
                else
                    CHECK(error == EPERM);
            }
        }
        CHECK(run(Filters::on, [=] {
                  return raw_socket(family, SOCK_STREAM, 262 | k_high_half);
              }).error_number == EPERM);
        CHECK(is_allowed([=] { return raw_socket(family, SOCK_STREAM, IPPROTO_TCP | k_high_half); }));
    }
    // The control: without the filters the kernel does not answer EPERM, even if it has no MPTCP.
    CHECK(run(Filters::off, [] { return raw_socket(AF_INET, SOCK_STREAM, 262); }).error_number != EPERM);
}

TEST_CASE("seccomp: modules on top of TCP and line disciplines are refused") {
    CHECK(is_refused(EPERM, [] { return set_option(AF_INET, IPPROTO_TCP, TCP_ULP); }));
    CHECK(is_refused(EPERM,
                     [] { return set_option(AF_INET6, IPPROTO_TCP | k_high_half, TCP_ULP | k_high_half); }));
    CHECK(is_allowed([] { return set_option(AF_INET, IPPROTO_TCP, TCP_NODELAY); }));
    CHECK(is_refused(EPERM, [] { return ::syscall(SYS_ioctl, -1, TIOCSETD | k_high_half, nullptr); }));
}

TEST_CASE("seccomp: packets of IPsec in UDP, pages given to a pipe and huge pages are refused") {
    const auto encapsulate = [](long high) {
        const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
        const int esp_in_udp = UDP_ENCAP_ESPINUDP;
        return ::syscall(SYS_setsockopt, fd, IPPROTO_UDP | high, UDP_ENCAP | high, &esp_in_udp,
                         sizeof esp_in_udp);
    };
    const auto map = [](long flags) -> long {
        return ::mmap(nullptr, 2UL * 1024 * 1024, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0) ==
                       MAP_FAILED
                   ? -1
                   : 0;
    };
    CHECK(is_refused(EPERM, [=] { return encapsulate(0); }));
    CHECK(is_refused(EPERM, [=] { return encapsulate(k_high_half); }));
    CHECK(is_refused(EPERM, [] { return ::syscall(SYS_vmsplice, -1, nullptr, 0, 0); }));
    CHECK(is_refused(EPERM, [] { return ::memfd_create("atoll-test", MFD_CLOEXEC | MFD_HUGETLB); }));
    CHECK(is_allowed([] { return ::memfd_create("atoll-test", MFD_CLOEXEC); }));
    CHECK(is_refused(EPERM, [=] { return map(MAP_HUGETLB); }));
    CHECK(is_allowed([=] { return map(0); }));
}

TEST_CASE("seccomp: the limit of core dumps cannot be changed, and trying is no error") {
    /// Asks for another limit; fails with EALREADY if that changed it.
    const auto stays = [](const std::function<long(const rlimit&)>& set) {
        return [set]() -> long {
            rlimit before{};
            rlimit after{};
            if (::getrlimit(RLIMIT_CORE, &before) != 0)
                return -1;
            const long result = set({before.rlim_cur == 0 ? 1U : 0U, before.rlim_max});
            if (result != 0 || ::getrlimit(RLIMIT_CORE, &after) != 0)
                return -1;
            errno = EALREADY;
            return after.rlim_cur == before.rlim_cur ? 0 : -1;
        };
    };
    const auto by_setrlimit = [](const rlimit& limit) {
        return ::syscall(SYS_setrlimit, RLIMIT_CORE | k_high_half, &limit);
    };
    const auto by_prlimit = [](const rlimit& limit) {
        return ::syscall(SYS_prlimit64, 0, RLIMIT_CORE | k_high_half, &limit, nullptr);
    };
    const auto of_itself = [](const rlimit& limit) {
        return ::syscall(SYS_prlimit64, ::getpid(), RLIMIT_CORE, &limit, nullptr);
    };
    CHECK(run(Filters::off, stays(by_setrlimit)).error_number == EALREADY);
    CHECK(run(Filters::off, stays(by_prlimit)).error_number == EALREADY);
    CHECK(run(Filters::off, stays(of_itself)).error_number == EALREADY);
    CHECK(is_allowed(stays(by_setrlimit)));
    CHECK(is_allowed(stays(by_prlimit)));
    CHECK(run(Filters::on, stays(of_itself)).error_number == EPERM);
    CHECK(is_allowed([]() -> long {
        const rlimit few{20, 20};
        rlimit now{};
        return ::setrlimit(RLIMIT_NOFILE, &few) == 0 && ::getrlimit(RLIMIT_NOFILE, &now) == 0 &&
                       now.rlim_max == 20
                   ? 0
                   : -1;
    }));
}

TEST_CASE("seccomp: native asynchronous I/O is unknown") {
    CHECK(is_refused(ENOSYS, [] {
        aio_context_t context = 0;
        return ::syscall(SYS_io_setup, 1, &context);
    }));
    for (const long number :
         {SYS_io_submit, SYS_io_getevents, SYS_io_destroy, SYS_io_cancel, SYS_io_pgetevents})
        CHECK(run(Filters::on, [number] { return ::syscall(number, 0, 0, 0, 0, 0, 0); }).error_number ==
              ENOSYS);
}

TEST_CASE("seccomp: which pages of a file are in memory is not told") {
    const auto read_at_once = [](int flags) -> long {
        int pair[2];
        char byte = 'x';
        const iovec into{&byte, 1};
        if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || ::write(pair[0], &byte, 1) != 1)
            return -1;
        return ::preadv2(pair[1], &into, 1, -1, flags);
    };
    CHECK(run(Filters::off, [=] { return read_at_once(RWF_NOWAIT); }).error_number == 0);
    CHECK(is_refused(EOPNOTSUPP, [=] { return read_at_once(RWF_NOWAIT); }));
    CHECK(is_allowed([=] { return read_at_once(0); }));
    constexpr long k_cachestat = 451;
    CHECK(run(Filters::on, [] { return ::syscall(k_cachestat, -1, nullptr, nullptr, 0); }).error_number ==
          ENOSYS);
}

#if defined(__x86_64__)
TEST_CASE("seccomp: calls of the 32-bit ABI are fatal") {
    const auto i386 = [] {
        long result = 20;  // getpid there
        asm volatile("int $0x80" : "+a"(result) : : "memory");
        return result;
    };
    const int unfiltered = run(Filters::off, i386).signal_number;
    if (unfiltered == SIGSEGV)
        SKIP("no 32-bit system calls on this machine");
    CHECK(unfiltered == 0);
    CHECK(run(Filters::on, i386).signal_number == SIGSYS);
}

TEST_CASE("seccomp: calls of the x32 ABI are fatal") {
    const auto x32 = [] { return ::syscall(0x4000'0000 + SYS_getpid); };
    CHECK(run(Filters::off, x32).signal_number == 0);
    CHECK(run(Filters::on, x32).signal_number == SIGSYS);
}
#endif

TEST_CASE("seccomp: every launch gets a descriptor with an offset of its own") {
    const auto filters = isolation::SeccompFilters::compile();
    REQUIRE(filters.has_value());
    const auto first = load(filters->open_calls());
    CHECK(load(filters->open_calls()).size() == first.size());
}

}  // namespace seccomp_test
