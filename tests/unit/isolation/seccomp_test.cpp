// The filters, really loaded: each call is made in a child without them first (it must not fail the way the
// filter makes it fail), then in a child with them.
#include "core/isolation/seccomp.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <functional>
#include <vector>

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

/// Makes `call` in a child: a negative result is told by its errno.
Outcome run(Filters filters, const std::function<long()>& call) {
    static const auto compiled = isolation::SeccompFilters::compile();
    REQUIRE(compiled.has_value());
    auto calls = load(compiled->open_calls());
    auto arguments = load(compiled->open_arguments());
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
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

#if defined(__x86_64__)
TEST_CASE("seccomp: calls of a foreign ABI are fatal") {
    const auto i386 = [] {
        long result = 20;  // getpid there
        asm volatile("int $0x80" : "+a"(result) : : "memory");
        return result;
    };
    const auto x32 = [] { return ::syscall(0x4000'0000 + SYS_getpid); };
    CHECK(run(Filters::off, i386).signal_number == 0);
    CHECK(run(Filters::on, i386).signal_number == SIGSYS);
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
