// Files of the host that all sandboxes see: whether a lock or a watch on them reaches other sandboxes or the
// host. As root each sandbox has inodes of its own for them. Rootless they are the host's, which is the
// control.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <thread>

#include "tests/isolation/lab.hpp"

namespace shared_files_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

/// True if a shell of `sandbox` can lock the file now.
bool can_lock(Sandbox& sandbox, const std::string& path) {
    return sandbox.run("exec 9<" + path + "; flock -xn 9").exit_code == 0;
}

bool can_lock_outside(const std::string& path) {
    return run_outside({"bash", "-c", "exec 9<" + path + "; flock -xn 9"}, ordinary_uid()).status == 0;
}

/// Starts a process that holds the lock until its sandbox ends.
void hold_lock(Sandbox& sandbox, const std::string& path) {
    sandbox.output("exec 9<" + path + "; flock -xn 9 && { sleep 1000 >/dev/null 2>&1 & }");
}

/// The names in `file` of the workspace, once `mark` is among them.
std::set<std::string> names_up_to(const Sandbox& sandbox, const std::string& file, const std::string& mark) {
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    std::set<std::string> names;
    while (!names.contains(mark) && std::chrono::steady_clock::now() < deadline) {
        names = lines_of(read_host_file(sandbox.workspace() / file));
        std::this_thread::yield();
    }
    REQUIRE(names.contains(mark));
    return names;
}

}  // namespace

// [serial]: a rootless sandbox's locks are the host's.
TEST_CASE("A lock on a file of the host that a sandbox sees blocks nobody else where the server is root",
          "[serial]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox holder(lab);
    Sandbox other(lab);
    Words shown{"/usr/bin/id", "/etc/ld.so.cache"};
    // A user namespace allows no new device nodes: the sandbox sees those of the host, and the server says
    // so.
    if (lab.name != "subordinate")
        shown.emplace_back("/dev/null");
    for (const auto& path : shown) {
        INFO(path);
        hold_lock(holder, path);
        CHECK_FALSE(can_lock(holder, path));
        CHECK(can_lock(other, path) == lab.has_private_uids);
        CHECK(can_lock_outside(path) == lab.has_private_uids);
    }
    hold_lock(holder, "/atoll/guest");
    CHECK_FALSE(can_lock(holder, "/atoll/guest"));
    CHECK(can_lock(other, "/atoll/guest") == lab.has_private_uids);
    hold_lock(holder, "/etc/passwd");
    CHECK_FALSE(can_lock(holder, "/etc/passwd"));
    CHECK(can_lock(other, "/etc/passwd") == lab.has_private_uids);
    CHECK(lab.api.call(200, "GET", "/v1/system")["notEnforced"].contains("hostFiles") ==
          (lab.name != "root"));
}

TEST_CASE("A lock on a mask of /proc blocks no other sandbox where the server is root") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox holder(lab);
    Sandbox other(lab);
    const auto masks = lines_of(holder.output("cut -d ' ' -f 2 /proc/self/mounts | grep '^/proc/'"));
    const auto folder = std::ranges::find_if(masks, [](const auto& path) { return fs::is_directory(path); });
    REQUIRE(masks.contains("/proc/cmdline"));
    REQUIRE(folder != masks.end());
    for (const std::string& path : {std::string("/proc/cmdline"), *folder}) {
        INFO(path);
        hold_lock(holder, path);
        CHECK_FALSE(can_lock(holder, path));
        CHECK(can_lock(other, path) == lab.has_private_uids);
    }
}

// [serial]: a rootless sandbox sees what all programs of the host open.
TEST_CASE("A sandbox does not see which programs others start where the server is root", "[serial]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox watcher(lab);
    Sandbox other(lab);
    watcher.probe_in_background({"watch", "/workspace/opened", "/usr/bin", "/etc"}, "watching");
    other.output("/usr/bin/arch; cat /etc/hostname");
    REQUIRE(run_outside({"/usr/bin/tty"}, ordinary_uid()).status != 127);
    // The control: the watch reports its own opens, in their order. The last is of a program that nothing
    // else starts.
    watcher.output("cat /etc/nsswitch.conf; /usr/bin/factor 6");
    const auto names = names_up_to(watcher, "opened", "factor");
    CHECK(names.contains("nsswitch.conf"));
    for (const char* name : {"arch", "tty", "hostname"}) {
        INFO(name);
        CHECK(names.contains(name) != lab.has_private_uids);
    }
}

TEST_CASE("What a sandbox sees of the host is what the host has, below mounts as well") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const std::string list =
        "cd / && find usr -maxdepth 2 -printf '%p %y %m %s %l\\n' | grep -v '^usr[^ ]* d' | sort | sha1sum";
    CHECK(sandbox.output(list) + "\n" == run_outside({"bash", "-c", list}, ordinary_uid()).output);
    CHECK(sandbox.output("sha1sum /usr/bin/bash /etc/ssl/certs/ca-certificates.crt 2>/dev/null; true") +
              "\n" ==
          run_outside(
              {"bash", "-c", "sha1sum /usr/bin/bash /etc/ssl/certs/ca-certificates.crt 2>/dev/null; true"},
              ordinary_uid())
              .output);
}

}  // namespace shared_files_test
