// System calls that a sandbox does not have. Each is first made outside, where it works.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace syscalls_test {

using namespace atl::test;

namespace {

/// Refused inside; and if it works for no user outside, the test says that it has no control.
void check_refused(const std::string& command, const std::string& call, const std::string& result = "EPERM") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    CHECK(sandbox.probe({command})[call] == result);
    const std::string host = outside({command})[call];
    if (host == "OK")
        return;
    if (!is_root())
        SKIP("needs root for the control: outside " << call << " is " << host << " for this user");
    SKIP("no control: this host's kernel has no " << call << " (" << host << ")");
}

}  // namespace

TEST_CASE("io_uring is refused") {
    check_refused("surface", "io_uring_setup");
}
TEST_CASE("bpf is refused") {
    check_refused("surface", "bpf");
}
TEST_CASE("keyctl is refused") {
    check_refused("surface", "keyctl");
}
TEST_CASE("add_key is refused") {
    check_refused("surface", "add_key");
}
TEST_CASE("userfaultfd is refused") {
    check_refused("surface", "userfaultfd");
}
TEST_CASE("perf_event_open is refused") {
    check_refused("surface", "perf_event_open");
}

TEST_CASE("The kernel's log is refused") {
    check_refused("machine", "syslog");
}
TEST_CASE("File handles are refused") {
    check_refused("machine", "name_to_handle_at");
}
TEST_CASE("fanotify is refused") {
    check_refused("machine", "fanotify_init");
}
TEST_CASE("kcmp is refused") {
    check_refused("machine", "kcmp");
}
TEST_CASE("The host's name cannot be set") {
    check_refused("machine", "sethostname");
}
TEST_CASE("The clock cannot be adjusted") {
    check_refused("machine", "adjtimex");
}
TEST_CASE("A personality that weakens memory protection is unknown") {
    check_refused("machine", "personality", "ENOSYS");
}

TEST_CASE("Nobody types into a terminal with TIOCSTI, whatever its upper half says") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"terminal"});
    CHECK(inside["tiocoutq"] == "OK");
    CHECK(inside["tiocsti"] == "EPERM");
    CHECK(inside["tiocsti-high"] == "EPERM");
    const Results host = outside({"terminal"});
    if (host["tiocsti"] == "EIO")
        SKIP("no control: TIOCSTI is switched off on this host for this user");
    CHECK(host.others_than({"OK"}) == "");
}

// [serial]: it takes from a budget of the whole host.
TEST_CASE("The host's budget for compiled filters cannot be used from inside", "[serial]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    CHECK(outside({"filters"}, ordinary_uid()).others_than({"OK"}) == "");
    const Results inside = sandbox.probe({"filters"});
    CHECK(inside.with("EPERM") ==
          std::set<std::string>{"attach-unix", "attach-inet", "attach-netlink", "reuseport"});
    // A kernel without filters gives this error. Programs that would confine themselves take it for a reason
    // to go on.
    CHECK(inside.with("EINVAL") == std::set<std::string>{"seccomp", "seccomp-listener", "prctl"});
}

TEST_CASE("Programs that install filters for themselves go on without") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    sandbox.put("page.1", ".TH PAGE 1\n.SH NAME\npage \\- of a manual\n");
    struct Program {
        const char* name;
        const char* command;
        const char* says;
    };
    for (const Program& program :
         {Program{"man", "man -C /dev/null -E ascii -P cat ./page.1", "of a manual"},
          Program{"file", "file page.1", "page.1: "}, Program{"gpg", "gpg --version", "gpg (GnuPG)"}}) {
        INFO(program.name);
        if (::access(("/usr/bin/" + std::string(program.name)).c_str(), X_OK) == 0)
            CHECK(sandbox.output(program.command).find(program.says) != std::string::npos);
    }
}

TEST_CASE(
    "Allowed calls are refused with arguments that reach other processes, modules or tables of the host") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const Results host = outside({"argument-gaps"}, ordinary_uid());
    const Results inside = sandbox.probe({"argument-gaps"});
    CHECK(inside["tcp"] == "OK");
    CHECK(inside["io-setup"] == "ENOSYS");
    for (const char* call : {"mptcp", "smc", "tcp-ulp", "line-discipline", "pidfd-getfd", "process-madvise",
                             "huge-file", "huge-pages"}) {
        INFO(call);
        CHECK(inside[call] == "EPERM");
        CHECK(host[call] != "EPERM");
    }
    // The kernel is not even asked.
    for (const char* option :
         {"ipv6-2292pktoptions", "ipv6-flowlabel", "ipv6-hopopts", "ipv6-rthdrdstopts", "ipv6-rthdr",
          "ipv6-dstopts", "tcp-md5sig", "tcp-md5sig-ext", "tcp-ao", "zerocopy"}) {
        INFO(option);
        CHECK(inside[option] == "EPERM");
    }
    for (const char* option : {"ipv6-join", "ipv6-anycast", "ipv6-mcast-join", "ipv6-mcast-source"}) {
        INFO(option);
        CHECK(inside[option] == "ENODEV");
        CHECK(host[option] != "ENODEV");
    }
    CHECK(host["zerocopy"] == "OK");
    CHECK(host["ipv6-2292pktoptions"] == "OK");
    for (const char* call :
         {"tcp", "tcp-ulp", "line-discipline", "pidfd-getfd", "process-madvise", "io-setup"}) {
        INFO(call);
        CHECK(host[call] == "OK");
    }
    // Kernels may lack these two.
    for (const char* call : {"mptcp", "smc"})
        CHECK((host[call] == "OK" || host[call] == "EPROTONOSUPPORT" || host[call] == "ENOPROTOOPT"));
}

TEST_CASE("What others keep in the page cache is told by no call") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"page-cache"});
    CHECK(inside["read-nowait"] == "EOPNOTSUPP");
    CHECK(inside["cachestat"] == "ENOSYS");
    const Results host = outside({"page-cache"}, ordinary_uid());
    CHECK(host["read-nowait"] == "OK");
    if (host["cachestat"] == "ENOSYS")
        SKIP("no control: this host's kernel has no cachestat");
    CHECK(host["cachestat"] == "OK");
}

TEST_CASE("The limit of core dumps is 1 inside, and nothing sets it to another value") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Results host = outside({"core-limit"}, ordinary_uid());
    CHECK(host["setrlimit"] == "OK");
    CHECK(host["after"] == "0,0");
    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"core-limit"});
    CHECK(inside["before"] == "1,1");
    CHECK(inside["after"] == "1,1");
    CHECK(inside.with("OK") == std::set<std::string>{"setrlimit", "prlimit", "prlimit-high"});
    CHECK(sandbox.output("ulimit -c 0; grep -o 'core file size.*' /proc/self/limits | tr -s ' '") ==
          "core file size 1 1 bytes ");
}

TEST_CASE("Calls of the i386 and x32 ABIs are fatal") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"foreign-abi"});
    CHECK(inside["native"] == "OK");
    if (!inside.all().contains("i386"))
        SKIP("this machine is not an x86-64 one");
    const Results host = outside({"foreign-abi"}, ordinary_uid());
    // A kernel without x32 says ENOSYS: outside the caller lives.
    CHECK((host["x32"] == "OK" || host["x32"] == "ENOSYS"));
    CHECK(inside["x32"] == "SIGSYS");
    if (host["i386"] != "OK")
        SKIP("no control: this host's kernel has no i386 calls (" << host["i386"] << ")");
    CHECK(inside["i386"] == "SIGSYS");
}

}  // namespace syscalls_test
