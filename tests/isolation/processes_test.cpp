// Which processes a sandbox sees, signals and traces.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace isolation_processes_test {

using namespace atl::test;

namespace {

std::set<std::string> numbers_in_proc(Sandbox& sandbox) {
    return lines_of(sandbox.output("cd /proc && ls -d [0-9]* | cat"));
}

}  // namespace

TEST_CASE("ps shows the sandbox's own processes and no other") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const RunResult host = run_outside({"ps", "-e", "-o", "args="}, ordinary_uid());
    REQUIRE(host.status == 0);
    REQUIRE(host.output.find("atolld") != std::string::npos);

    Sandbox sandbox(lab);
    sandbox.probe_in_background({"wait"}, "waiting");
    auto seen = lines_of(sandbox.output("ps -e -o args="));
    // The shell that waits for this ps.
    CHECK(std::erase_if(seen, [](const std::string& line) { return line.starts_with("/bin/bash -c"); }) == 1);
    CHECK(seen == std::set<std::string>{"/atoll/guest", "/workspace/atoll-probe wait", "ps -e -o args="});
    CHECK(numbers_in_proc(sandbox).contains("1"));
    CHECK(numbers_in_proc(sandbox).size() <= 5);
}

TEST_CASE("A process of the host with the sandbox's own uid cannot be signalled or traced from inside") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const uid_t uid = sandbox.host_uid();
    HostProcess victim({probe_program().string(), "wait"}, uid);
    victim.read_until("waiting");
    const std::string pid = std::to_string(victim.pid());
    REQUIRE(outside({"signal", "0", pid}, uid)[pid] == "OK");
    REQUIRE(outside({"trace", pid}, uid).others_than({"OK"}) == "");

    // Otherwise the pid would mean one of the sandbox's own processes.
    REQUIRE_FALSE(numbers_in_proc(sandbox).contains(pid));
    const std::string kill = std::to_string(SIGKILL);
    CHECK(sandbox.probe({"signal", kill, pid, std::to_string(lab.server.pid()), std::to_string(::getpid())})
              .others_than({"ESRCH"}) == "");
    CHECK(sandbox.probe({"trace", pid, std::to_string(lab.server.pid())}).others_than({"ESRCH"}) == "");
    CHECK(victim.is_alive());
}

TEST_CASE("Killing everything kills what is inside and nothing else") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    HostProcess victim({probe_program().string(), "wait"}, sandbox.host_uid());
    victim.read_until("waiting");
    sandbox.probe_in_background({"wait"}, "waiting");
    const std::string running = "ps -e -o args= | grep -c '[a]toll-probe wait'; true";
    REQUIRE(sandbox.output(running) == "1");
    CHECK(sandbox.run("kill -9 -1").exit_code.has_value());
    CHECK(eventually([&] { return sandbox.output(running) == "0"; }));
    CHECK(victim.is_alive());
    CHECK(sandbox.is_well());
}

TEST_CASE("Processes inside can signal, trace and look into each other") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    CHECK(sandbox.probe({"inspect", "child"}).others_than({"OK"}) == "pidfd_getfd=EPERM ");
}

TEST_CASE("No process of a sandbox is root on the host, or is left when its conversation is deleted") {
    Lab& lab = each_lab();
    INFO(lab.name);
    std::vector<atl::base::UniqueFd> inside;
    {
        Sandbox sandbox(lab);
        sandbox.probe_in_background({"wait"}, "waiting");
        const auto pids = sandbox.processes();
        REQUIRE(pids.size() >= 3);
        const std::string wanted = "Uid:\t" + std::to_string(sandbox.host_uid()) + "\t";
        CHECK(sandbox.host_uid() != 0);
        for (const pid_t pid : pids)
            CHECK(read_host_file("/proc/" + std::to_string(pid) + "/status").find(wanted) !=
                  std::string::npos);
        inside = open_pidfds(pids);
        CHECK(inside.size() == pids.size());
    }
    CHECK(await_gone(inside, k_client_deadline));
}

}  // namespace isolation_processes_test
