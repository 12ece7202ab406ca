// System calls that a sandbox does not have. Each is first made outside, where it works.
#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

using namespace atl::test;

namespace {

/// Refused inside; and if it works outside for nobody here, the test says that it has no control.
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
