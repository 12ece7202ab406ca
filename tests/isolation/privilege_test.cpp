// Ways to more privilege: capabilities, setuid programs, namespaces, mounts, device nodes.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <array>
#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace privilege_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

const std::string k_no_capabilities(16, '0');

/// The probe at `path` as a setuid-root program for all users.
void make_setuid_root(const fs::path& path) {
    fs::copy_file(probe_program(), path);
    REQUIRE(::chown(path.c_str(), 0, 0) == 0);
    REQUIRE(::chmod(path.c_str(), 06755) == 0);
}

/// The probe at `path` as a program with the file capability CAP_NET_RAW for all users (capabilities(7),
/// version 2, little endian).
void make_capable(const fs::path& path) {
    fs::copy_file(probe_program(), path);
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
    constexpr unsigned k_version_2_effective = 0x0200'0001;
    constexpr unsigned k_net_raw = 1U << 13;
    const std::array<unsigned, 5> data{k_version_2_effective, k_net_raw, 0, 0, 0};
    REQUIRE(::setxattr(path.c_str(), "security.capability", data.data(), sizeof data, 0) == 0);
}

}  // namespace

TEST_CASE("A process inside has no capability in any set, no new privileges and a filter") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Results host = outside({"status"}, ordinary_uid());
    REQUIRE(host["CapBnd"] != k_no_capabilities);
    REQUIRE(host["bounding-count"] != "0");
    REQUIRE(outside({"in-userns", "status"}, ordinary_uid())["CapEff"] != k_no_capabilities);

    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"status"});
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
        INFO(set);
        CHECK(inside[set] == k_no_capabilities);
    }
    CHECK(inside["bounding-count"] == "0");
    CHECK(inside["NoNewPrivs"] == "1");
    CHECK(inside["Seccomp"] == "2");
    CHECK(inside["Uid"] == "1000,1000,1000,1000");
    CHECK(inside["Gid"] == "1000,1000,1000,1000");
    CHECK(inside["Groups"] == "none");
}

TEST_CASE("Process 1 is confined as its children are") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const auto lines = lines_of(sandbox.output(
        "grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/1/status | tr '\\t' ' '"));
    std::set<std::string> expected{"NoNewPrivs: 1", "Seccomp: 2"};
    for (const char* set : {"CapInh: ", "CapPrm: ", "CapEff: ", "CapBnd: ", "CapAmb: "})
        expected.insert(set + k_no_capabilities);
    CHECK(lines == expected);
}

TEST_CASE("A process inside cannot take on another id or a capability") {
    Lab& lab = each_lab();
    INFO(lab.name);
    CHECK(outside({"in-userns", "gain"}).others_than({"OK"}) == "");
    Sandbox sandbox(lab);
    CHECK(sandbox.probe({"gain"}).others_than({"EPERM", "EINVAL"}) == "");
}

TEST_CASE("A setuid program of root and one with file capabilities gain nothing inside") {
    if (!is_root())
        SKIP("needs root: nobody else can make such programs");
    Lab& lab = each_lab();
    INFO(lab.name);
    TempDir folder;
    make_setuid_root(folder.path() / "setuid");
    make_capable(folder.path() / "capable");
    const RunResult effect = run_outside({folder.path() / "setuid", "identity"}, ordinary_uid());
    REQUIRE(Results(effect.output)["euid"] == "0");
    const RunResult capable = run_outside({folder.path() / "capable", "status"}, ordinary_uid());
    REQUIRE(Results(capable.output)["CapEff"] != k_no_capabilities);

    Sandbox sandbox(lab);
    make_setuid_root(sandbox.workspace() / "setuid");
    make_capable(sandbox.workspace() / "capable");
    const Results inside(sandbox.output("./setuid identity"));
    CHECK(inside["euid"] == "1000");
    CHECK(inside["egid"] == "1000");
    CHECK(Results(sandbox.output("./setuid status"))["CapPrm"] == k_no_capabilities);
    CHECK(Results(sandbox.output("./capable status"))["CapPrm"] == k_no_capabilities);
}

TEST_CASE("A file that is made setuid inside has no effect either") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const std::string made = "cp atoll-probe copy && chmod 6755 copy && ./copy ";
    CHECK(Results(sandbox.output(made + "identity"))["euid"] == "1000");
    CHECK(Results(sandbox.output(made + "status"))["CapEff"] == k_no_capabilities);
}

TEST_CASE("Nothing can be mounted, unmounted or remounted, and the root not be changed") {
    Lab& lab = each_lab();
    INFO(lab.name);
    TempDir folder;
    CHECK(outside({"in-userns", "mounts", folder.path()}).others_than({"OK"}) == "");
    Sandbox sandbox(lab);
    CHECK(sandbox.probe({"mounts", "/tmp"}).others_than({"EPERM"}) == "");
    CHECK(sandbox.probe({"remount", "/", "/usr", "/etc", "/dev", "/run/atoll", "/atoll/guest"})
              .others_than({"EPERM"}) == "");
}

TEST_CASE("No new namespace can be made, by any call and with any disguise of its flags") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Results host = outside({"namespaces"});
    CHECK(host.others_than({"OK"}) == "");
    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"namespaces"});
    CHECK(inside.names() == host.names());
    for (const auto& [name, result] : inside.all()) {
        INFO(name);
        CHECK(result == (name.starts_with("clone3/") ? "ENOSYS" : "EPERM"));
    }
    CHECK(outside({"in-userns", "bare-namespaces"}).others_than({"OK"}) == "");
    CHECK(sandbox.probe({"bare-namespaces"}).others_than({"EPERM"}) == "");
    CHECK(sandbox.run("unshare --user true").exit_code.value_or(0) == 1);
}

TEST_CASE("Without the filter, too, the kernel makes no user namespace below a sandbox's") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    sandbox.probe_in_background({"wait"}, "waiting");
    const std::string pid = std::to_string(sandbox.processes().back());
    const Results joined = outside({"in-userns-of", pid, "bare-namespaces"});
    REQUIRE(joined["unshare/uts"] == "OK");
    CHECK(joined["unshare/user"] == "ENOSPC");
    CHECK(joined["clone/user"] == "ENOSPC");
}

TEST_CASE("Processes can still be made; clone3 is unknown, so that libc falls back") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"plain-clones"});
    CHECK(inside["fork"] == "OK");
    CHECK(inside["clone"] == "OK");
    CHECK(inside["clone3"] == "ENOSYS");
    CHECK(outside({"plain-clones"}, ordinary_uid()).others_than({"OK"}) == "");
}

TEST_CASE("A namespace cannot be entered") {
    Lab& lab = each_lab();
    INFO(lab.name);
    CHECK(outside({"in-userns", "enter-namespaces"}).others_than({"OK"}) == "");
    Sandbox sandbox(lab);
    CHECK(sandbox.probe({"enter-namespaces"}).others_than({"EPERM"}) == "");
}

TEST_CASE("Device nodes cannot be made") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    for (const char* folder : {"/workspace", "/tmp", "/dev/shm"}) {
        INFO(folder);
        const Results inside = sandbox.probe({"devices", folder});
        CHECK(inside["fifo"] == "OK");
        CHECK(inside.with("OK").size() == 1);
        CHECK(inside.with("EPERM").size() == inside.all().size() - 1);
    }
    if (!is_root())
        SKIP("needs root for the control: others make no device nodes anywhere");
    TempDir folder;
    CHECK(outside({"devices", folder.path()}).others_than({"OK"}) == "");
}

TEST_CASE("A device node that somebody else made does not open") {
    if (!is_root())
        SKIP("needs root: others make no device nodes");
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const fs::path node = sandbox.workspace() / "zero";
    REQUIRE(::mknod(node.c_str(), S_IFCHR | 0666, makedev(1, 5)) == 0);
    REQUIRE(::chmod(node.c_str(), 0666) == 0);
    REQUIRE(outside({"read", node})[node] == "OK");
    CHECK(sandbox.probe({"read", "/workspace/zero"})["/workspace/zero"] == "EACCES");
    CHECK(sandbox.probe({"read", "/dev/zero"})["/dev/zero"] == "OK");
}

}  // namespace privilege_test
