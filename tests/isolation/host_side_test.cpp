// Traces of the server on the host: its files, the command lines of its processes.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace host_side_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

mode_t mode_of(const fs::path& path) {
    struct stat about {};
    REQUIRE(::lstat(path.c_str(), &about) == 0);
    return about.st_mode;
}

/// The regular files that lie directly in the data directory.
Words files_of(const fs::path& data_dir) {
    Words files;
    for (const auto& entry : fs::directory_iterator(data_dir)) {
        if (entry.is_regular_file())
            files.push_back(entry.path());
    }
    return files;
}

/// Command lines of every process of the host that hold `mark`.
std::string command_lines_with(const std::string& mark) {
    std::string found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        const std::string text = read_host_file(entry.path() / "cmdline");
        if (text.find(mark) != std::string::npos)
            found += entry.path().filename().string() + ": " + text + "\n";
    }
    return found;
}

Words read(Words paths) {
    paths.insert(paths.begin(), "read");
    return paths;
}

}  // namespace

TEST_CASE("Key, database and instance id belong to the server alone") {
    for (const Privilege privilege : privileges()) {
        ServerOptions options;
        options.privilege = privilege;
        options.environment = {{"ATOLL_API_KEY", ""}};  // the first of that name counts: a key is made
        const ServerProcess server(options);
        const fs::path data = server.data_dir();
        fs::permissions(data, fs::perms(0755));  // so that only the files' own modes are left
        const Words files = files_of(data);
        for (const char* name : {"api-key", "atoll.db", "instance-id", "lock"}) {
            INFO(name);
            CHECK(std::find(files.begin(), files.end(), data / name) != files.end());
        }
        for (const auto& file : files) {
            INFO(file);
            CHECK((mode_of(file) & 07177) == 0);
        }
        for (const char* name : {"workspaces", "run"})
            CHECK((mode_of(data / name) & 0077) == 0);
        CHECK(outside(read(files)).others_than({"OK"}) == "");
        if (is_root() && privilege == Privilege::as_started)
            CHECK(outside(read(files), ordinary_uid()).others_than({"EACCES"}) == "");
    }
}

TEST_CASE("A sandbox's uid reads nothing of the data directory but its own workspace, even outside") {
    if (!is_root())
        SKIP("needs root: a rootless server and its sandboxes have the same uid");
    Lab lab(Privilege::as_started);
    Sandbox sandbox(lab);
    const fs::path data = lab.server.data_dir();
    const std::string own = sandbox.workspace() / "atoll-probe";
    for (const auto& path : {data, data / "workspaces"})
        fs::permissions(path, fs::perms(0755));
    REQUIRE(outside({"read", own}, sandbox.host_uid())[own] == "OK");
    Words others = files_of(data);
    for (const fs::path& path : {data / "run", sandbox.bridge_socket(), data / "trash"})
        others.push_back(path);
    CHECK(outside(read(others), sandbox.host_uid()).others_than({"EACCES"}) == "");
    for (const std::string socket : {sandbox.bridge_socket(), sandbox.reachable_bridge_socket()}) {
        INFO(socket);
        CHECK(outside({"drive", socket, "nonsense"}, sandbox.host_uid())["nonsense"] == "EACCES");
    }
    // On disk there is nothing of it: it is in memory, in a mount namespace of the server's.
    CHECK_FALSE(fs::exists(sandbox.bridge_socket()));
    CHECK(fs::exists(sandbox.reachable_bridge_socket()));
}

// [serial]: all processes of the host are looked at.
TEST_CASE("No command line of the host shows a sandbox's environment or its data directory's place",
          "[serial]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const std::string secret = "env-value-" + std::to_string(::getpid()) + "-" + lab.name;
    Sandbox sandbox(lab, {{"env", {{"REQUEST_SECRET", secret}}}});
    REQUIRE(sandbox.output("echo $REQUEST_SECRET") == secret);
    // The control: a command line that does hold it is found.
    {
        HostProcess told({probe_program().string(), "wait", secret}, ordinary_uid());
        told.read_until("waiting");
        REQUIRE_FALSE(command_lines_with(secret).empty());
    }
    sandbox.probe_in_background({"wait"}, "waiting");
    CHECK(command_lines_with(secret).empty());
    CHECK(command_lines_with(sandbox.sandbox_id()).empty());
    CHECK(command_lines_with(passed_variables().at("ANTHROPIC_API_KEY")).empty());

    const std::string launcher = "/proc/" + std::to_string(sandbox.processes().front()) + "/cmdline";
    CHECK(read_host_file(launcher).find("bwrap") != std::string::npos);
}

TEST_CASE("Other users of the host cannot look into a sandbox's processes") {
    Lab& lab = each_lab();
    INFO(lab.name);
    if (!is_root())
        SKIP("needs root to be another user");
    Sandbox sandbox(lab, {{"env", {{"REQUEST_SECRET", "looked-for"}}}});
    sandbox.probe_in_background({"wait"}, "waiting");
    Words environments{"read"};
    for (const pid_t pid : sandbox.processes())
        environments.push_back("/proc/" + std::to_string(pid) + "/environ");
    REQUIRE(environments.size() >= 4);
    REQUIRE(outside(environments).with("OK").size() >= 1);
    constexpr uid_t k_stranger = 1'234'568;
    CHECK(outside(environments, k_stranger).others_than({"EACCES"}) == "");
}

TEST_CASE("A sandbox says what confines it") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const Json& enforcement = sandbox.conversation()["enforcement"];
    CHECK(enforcement["filesystem"] == "bubblewrap");
    CHECK(enforcement["network"] == "netns");
    CHECK(enforcement["syscalls"] == "seccomp");
}

TEST_CASE("These tests ran with a host uid for each sandbox as well") {
    if (!is_root())
        SKIP("needs root: only rootless sandboxes were tested");
    // Without the package uidmap, which scripts/setup installs, this fails.
    CHECK(privileges().size() == 3);
}

}  // namespace host_side_test
