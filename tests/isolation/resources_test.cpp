// Limits on one process inside, and the processes that a host without memory kills first.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/isolation/lab.hpp"

namespace isolation_resources_test {

using namespace atl::test;

namespace {

// How many files a process can open, of 6,000 that it tries, and whether it can have more by asking.
const std::string k_open_files = R"(exec python3 -c '
import os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
print(soft, hard)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (6100, max(hard, 6100)))
except (ValueError, OSError):
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
count = 0
try:
    while count < 6000:
        os.dup(0)
        count += 1
except OSError:
    pass
print(count + 3)
')";

// Asks for a larger buffer of a socket; prints whether it was refused, and whether it got one.
const std::string k_larger_buffer = R"(exec python3 -c '
import socket
one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
before = one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, before // 4)
print("same" if one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == before else "changed")
')";

int oom_score_adj(pid_t pid) {
    const std::string text = read_host_file("/proc/" + std::to_string(pid) + "/oom_score_adj");
    INFO("process " << pid);
    REQUIRE_FALSE(text.empty());
    return std::stoi(text);
}

/// True if this process, and so a server that it starts as root, has CAP_SYS_RESOURCE.
bool may_set_least_score() {
    constexpr unsigned k_cap_sys_resource = 24;
    const std::string status = read_host_file("/proc/self/status");
    const auto at = status.find("CapEff:\t");
    REQUIRE(at != std::string::npos);
    return (std::stoull(status.substr(at + 8, 16), nullptr, 16) >> k_cap_sys_resource & 1U) != 0;
}

/// Raises its own score as a sandbox's is, then takes it back.
const std::string k_lower_score =
    "echo 800 > /proc/self/oom_score_adj && echo 0 > /proc/self/oom_score_adj && cat "
    "/proc/self/oom_score_adj";

}  // namespace

TEST_CASE("A process inside has as many open files as its sandbox's limit says, and cannot raise it") {
    Lab& lab = each_lab();
    INFO(lab.name);
    // The control: outside, the same program opens all its files.
    const std::string free = run_outside({"bash", "-c", k_open_files}, ordinary_uid()).output;
    REQUIRE(free.ends_with("\n6003\n"));
    Sandbox sandbox(lab);
    CHECK(sandbox.run(k_open_files).output == "1024 4096\n4096\n");
    Sandbox small(lab, {{"limits", {{"maxOpenFiles", 100}}}});
    CHECK(small.run(k_open_files).output == "100 100\n100\n");
    // A changed limit counts from the next start.
    lab.api.call(200, "PATCH", "/v1/conversations/" + small.id(), R"({"limits":{"maxOpenFiles":300}})");
    CHECK(small.run(k_open_files).output == "100 100\n100\n");
    lab.api.call(200, "POST", "/v1/conversations/" + small.id() + "/pause");
    CHECK(small.run(k_open_files).output == "300 300\n300\n");
}

TEST_CASE("A socket inside keeps the default size of its receive buffer, whatever it asks for") {
    Lab& lab = each_lab();
    INFO(lab.name);
    REQUIRE(run_outside({"bash", "-c", k_larger_buffer}, ordinary_uid()).output == "changed\n");
    Sandbox sandbox(lab);
    CHECK(sandbox.run(k_larger_buffer).output == "same\n");
}

TEST_CASE("A host without memory ends what is inside before its own programs and the server") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    sandbox.probe_in_background({"wait"}, "waiting");
    const auto processes = sandbox.processes();
    REQUIRE(processes.size() >= 3);
    for (const pid_t pid : processes)
        CHECK(oom_score_adj(pid) == 800);
    CHECK(oom_score_adj(lab.server.pid()) <= oom_score_adj(::getpid()));
}

TEST_CASE("No process inside can lower its score for a host without memory") {
    Lab& lab = each_lab();
    INFO(lab.name);
    // The control: outside the same works, also for an ordinary user.
    const std::string start = run_outside({"cat", "/proc/self/oom_score_adj"}, ordinary_uid()).output;
    if (std::stoi(start) > 0)
        SKIP("the tests themselves were started with an oom_score_adj above 0");
    REQUIRE(run_outside({"bash", "-c", k_lower_score}, ordinary_uid()).output == "0\n");
    if (lab.name != "root" || !may_set_least_score())
        return;  // the server cannot set a lower bound for processes inside (SECURITY.md)
    Sandbox sandbox(lab);
    const Turn turn = sandbox.run(k_lower_score + " 2>&1");
    CHECK(turn.output.find("Permission denied") != std::string::npos);
    CHECK(sandbox.run("cat /proc/self/oom_score_adj").output == "800\n");
    CHECK(sandbox.run("echo 900 > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj").output ==
          "900\n");
}

}  // namespace isolation_resources_test
