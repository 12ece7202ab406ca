// Two sandboxes of one server cannot reach each other.
#include <signal.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace neighbours_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

Words join(Words first, const Words& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

/// Two conversations: one is attacked by the other.
struct Neighbours {
    explicit Neighbours(Lab& lab) : attacker(lab), victim(lab) {}

    Sandbox attacker;
    Sandbox victim;
};

}  // namespace

TEST_CASE("Two sandboxes do not see or signal each other's processes") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Neighbours two(lab);
    two.victim.probe_in_background({"wait"}, "waiting");
    const std::string look = "ps -e -o args= | grep -c '[a]toll-probe wait'; true";
    REQUIRE(two.victim.output(look) == "1");
    CHECK(two.attacker.output(look) == "0");

    Words pids;
    for (const pid_t pid : two.victim.processes())
        pids.push_back(std::to_string(pid));
    REQUIRE(pids.size() >= 3);
    // The control: for the kernel outside, signals between these uids are allowed, or the test's own.
    CHECK(outside(join({"signal", "0"}, pids)).others_than({"OK"}) == "");
    const auto own = lines_of(two.attacker.output("cd /proc && ls -d [0-9]* | cat"));
    std::erase_if(pids, [&](const std::string& pid) { return own.contains(pid); });
    CHECK(two.attacker.probe(join({"signal", std::to_string(SIGKILL)}, pids)).others_than({"ESRCH"}) == "");
    CHECK(two.attacker.probe(join({"trace"}, pids)).others_than({"ESRCH"}) == "");
    two.attacker.run("kill -9 -1");
    CHECK(two.victim.output(look) == "1");
    CHECK(two.victim.is_well());
}

TEST_CASE("Two sandboxes cannot connect to each other") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Neighbours two(lab);
    const Words services = {"tcp:5173:127.0.0.1", "abstract:neighbour", "unix:/tmp/own.sock",
                            "unix:/workspace/own.sock"};
    two.victim.probe_in_background(join({"serve"}, services), "serving 4");
    REQUIRE(two.victim.probe(join({"connect"}, services)).others_than({"OK"}) == "");
    CHECK(two.attacker.probe(join({"connect"}, services)).others_than({"ECONNREFUSED", "ENOENT"}) == "");

    const std::string on_host = "unix:" + (two.victim.workspace() / "own.sock").string();
    REQUIRE(
        outside({"connect", on_host}, two.victim.host_uid() == ordinary_uid() ? ordinary_uid() : ::geteuid())
            .others_than({"OK"}) == "");
    CHECK(two.attacker.probe({"connect", on_host})[on_host] == "ENOENT");
}

TEST_CASE("A sandbox reads nothing of another's workspace by any path") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Neighbours two(lab);
    two.victim.put("secret", "of the victim");
    const fs::path secret = two.victim.workspace() / "secret";
    const std::string sibling = "../" + two.victim.sandbox_id() + "/secret";
    REQUIRE(two.victim.output("cat secret") == "of the victim");
    REQUIRE(outside({"read", secret, two.attacker.workspace() / sibling}).others_than({"OK"}) == "");

    two.attacker.output("ln -s " + quoted(secret) + " absolute; ln -s " + quoted(sibling) + " relative");
    fs::create_symlink(secret, two.attacker.workspace() / "made-outside");
    Words attempts{"read",
                   secret,
                   "/workspace/" + sibling,
                   "/workspace/absolute",
                   "/workspace/relative",
                   "/workspace/made-outside",
                   "/proc/self/cwd/" + sibling};
    for (const auto& pid : lines_of(two.attacker.output("cd /proc && ls -d [0-9]* self thread-self | cat")))
        attempts.push_back("/proc/" + pid + "/root" + secret.string());
    CHECK(two.attacker.probe(attempts).others_than({"ENOENT", "EACCES", "ENOTDIR"}) == "");
    CHECK(two.attacker.run("grep -rs 'of the victim' /workspace /tmp /run /dev/shm /proc/*/root/workspace")
              .output == "");
}

TEST_CASE("Temporary files and System V memory of a sandbox are its own") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Neighbours two(lab);
    const std::string make = "for d in /tmp /run /dev/shm; do echo mine > $d/shared; done; ipcmk -M 4096";
    const std::string count =
        "ls /tmp/shared /run/shared /dev/shm/shared 2>/dev/null | wc -l; ipcs -m | grep -c '^0x'";
    two.victim.output(make);
    REQUIRE(two.victim.run(count).output == "3\n1\n");
    CHECK(two.attacker.run(count).output == "0\n0\n");
}

TEST_CASE("Every sandbox has namespaces of its own, of each kind") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Neighbours two(lab);
    const std::string list = "for n in user mnt pid net ipc uts cgroup; do readlink /proc/self/ns/$n; done";
    const RunResult host = run_outside({"bash", "-c", list}, ordinary_uid());
    const auto outside_ones = lines_of(host.output);
    REQUIRE(outside_ones.size() == 7);
    std::set<std::string> all = outside_ones;
    for (Sandbox* sandbox : {&two.attacker, &two.victim}) {
        const auto inside = lines_of(sandbox->output(list));
        CHECK(inside.size() == 7);
        all.insert(inside.begin(), inside.end());
    }
    CHECK(all.size() == 21);
}

TEST_CASE("Every sandbox has a bridge socket of its own") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Neighbours two(lab);
    CHECK(two.attacker.bridge_socket() != two.victim.bridge_socket());
    std::set<ino_t> nodes;
    for (Sandbox* sandbox : {&two.attacker, &two.victim}) {
        struct stat about {};
        REQUIRE(::stat(sandbox->reachable_bridge_socket().c_str(), &about) == 0);
        CHECK(S_ISSOCK(about.st_mode));
        CHECK((about.st_mode & 0077) == 0);
        nodes.insert(about.st_ino);
        CHECK(sandbox->output("stat -c %i /run/atoll/bridge.sock") == std::to_string(about.st_ino));
    }
    CHECK(nodes.size() == 2);
    CHECK(two.attacker.probe({"read", two.victim.bridge_socket()}).others_than({"ENOENT"}) == "");
}

TEST_CASE("Every sandbox has a host uid of its own where the server is root, and says so") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Neighbours two(lab);
    const Json& enforcement = two.victim.conversation()["enforcement"];
    CHECK(enforcement["uid"] == (lab.has_private_uids ? "private" : "shared"));
    CHECK((two.attacker.host_uid() != two.victim.host_uid()) == lab.has_private_uids);
    CHECK(two.attacker.host_uid() != 0);
    if (!lab.has_private_uids)
        CHECK(two.attacker.host_uid() == ordinary_uid());
    CHECK(two.victim.output("id -u; id -g; id -G") == "1000\n1000\n1000");
}

TEST_CASE("A sandbox's uid opens nothing of another sandbox, even outside of both") {
    if (!is_root())
        SKIP("needs root: a rootless server has one uid for all sandboxes");
    Lab& lab = each_lab();
    INFO(lab.name);
    if (!lab.has_private_uids)
        return;
    Neighbours two(lab);
    two.victim.put("secret", "of the victim");
    // The folders above are closed as well; opened here, so that only the workspace's own mode is left.
    const fs::path data = lab.server.data_dir();
    fs::permissions(data, fs::perms(0755));
    fs::permissions(data / "workspaces", fs::perms(0755));
    const std::string secret = two.victim.workspace() / "secret";
    REQUIRE(outside({"read", secret}, two.victim.host_uid())[secret] == "OK");
    CHECK(outside({"read", secret}, two.attacker.host_uid())[secret] == "EACCES");
    fs::permissions(data / "workspaces", fs::perms(0700));
    fs::permissions(data, fs::perms(0700));
    CHECK(outside({"read", secret}, two.victim.host_uid())[secret] == "EACCES");
}

}  // namespace neighbours_test
