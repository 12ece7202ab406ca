// Processes inside a sandbox cannot control, inspect or end its process 1.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace isolation_guest_test {

using namespace atl::test;

namespace {

constexpr const char* k_inner_socket = "/run/atoll/bridge.sock";

/// A SIGTERM that ends an ordinary process inside, and reaches process 1 as well, does not end that.
void check_survives(const std::string& command, const std::string& step) {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const Results control = sandbox.probe({command, "child"});
    REQUIRE(control["ended"] == "SIGTERM");
    REQUIRE(control[step] == "OK");
    CHECK(sandbox.run(sandbox.probe_command({command, "1"})).exit_code == 0);
    CHECK(sandbox.is_well());
}

}  // namespace

TEST_CASE("The guest does not talk to processes inside") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    // The control: to the host the same words over the same socket get an answer.
    const uid_t server_uid = lab.has_private_uids ? ::geteuid() : ordinary_uid();
    REQUIRE(outside({"drive", sandbox.reachable_bridge_socket(), "interrupt"}, server_uid)["interrupt"] ==
            "ANSWERED");
    REQUIRE(outside({"drive", sandbox.reachable_bridge_socket(), "nonsense"}, server_uid)["nonsense"] ==
            "ANSWERED");

    const Results inside = sandbox.probe({"drive", k_inner_socket});
    CHECK(inside.all().size() == 5);
    // With private uids the socket is the server's alone; else all have one uid, and the guest hangs up.
    CHECK(inside.others_than({lab.has_private_uids ? "EACCES" : "CLOSED"}) == "");
    CHECK(sandbox.is_well());
}

TEST_CASE("The bridge socket cannot be replaced or moved away from inside") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    sandbox.output("mkdir -p /tmp/control && touch /tmp/control/file");
    CHECK(sandbox.probe({"replace", "/tmp/control/file"})["rename-over"] == "OK");
    const Results inside = sandbox.probe({"replace", k_inner_socket});
    CHECK(inside.with("OK").empty());
    CHECK(inside.others_than({"EROFS", "EBUSY", "EXDEV", "ENOENT", "EEXIST", "EPERM"}) == "");
    CHECK(inside["rename-beside-over"] != "OK");
    CHECK(inside["unlink"] == "EROFS");
    CHECK(sandbox.output(std::string("stat -c %F ") + k_inner_socket) == "socket");
    CHECK(sandbox.is_well());
}

TEST_CASE("Process 1 cannot be looked into or traced") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    REQUIRE(sandbox.probe({"inspect", "child"}).others_than({"OK"}) == "pidfd_getfd=EPERM ");
    const Results inside = sandbox.probe({"inspect", "1", "3"});
    CHECK(inside.all().size() >= 16);
    CHECK(inside.others_than({"EACCES", "EPERM"}) == "");
    CHECK(sandbox
              .probe({"put", "1", "/proc/1/comm", "/proc/1/oom_adj", "/proc/1/autogroup",
                      "/proc/1/coredump_filter", "/proc/1/timerslack_ns", "/proc/1/clear_refs",
                      "/proc/1/sched", "/proc/1/task/1/comm"})
              .with("OK")
              .empty());
    CHECK(sandbox.is_well());
}

TEST_CASE("No signal that a process inside sends ends or stops process 1") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    // The control: a process that is not the first ends.
    const Turn control = sandbox.run("bash -c 'kill -TERM $$'; echo $?");
    REQUIRE(control.output.find(std::to_string(128 + SIGTERM)) != std::string::npos);
    const Results sent = sandbox.probe({"signals", "1"});
    CHECK(sent.all().size() >= 60);
    for (const int number : {SIGTERM, SIGKILL, SIGSTOP, SIGINT, SIGSEGV, SIGCHLD})
        CHECK(sent[std::to_string(number)] == "OK");
    CHECK(sandbox.is_well());
}

TEST_CASE("A signal that claims to come from outside the sandbox does not end process 1") {
    check_survives("forged-signal", "code-1");  // SI_QUEUE: the kernel takes the sender's word for the rest
}

TEST_CASE("A signal that the kernel sends for a process inside does not end process 1") {
    check_survives("kernel-signal", "data");
}

TEST_CASE("A signal that lost what it tells of its sender does not end process 1") {
    check_survives("bare-signal", "bare");
}

TEST_CASE("Process 1 cannot be given limits that it could not work with") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    REQUIRE(outside({"limit", "child"}, ordinary_uid()).with("OK").size() == 4);
    CHECK(sandbox.probe({"limit", "1"}).others_than({"EPERM"}) == "");
    CHECK(sandbox.output("ulimit -n 100; ulimit -n") == "100");
    CHECK(sandbox.is_well());
}

TEST_CASE("The guest's program cannot be changed from inside") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    sandbox.output("touch /tmp/file");
    REQUIRE(sandbox.probe({"replace", "/tmp/file"})["rename-over"] == "OK");
    CHECK(sandbox.probe({"replace", "/atoll/guest"}).with("OK").empty());
    CHECK(sandbox.is_well());
}

}  // namespace isolation_guest_test
