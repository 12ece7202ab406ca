// The files of the host that a sandbox can read, and the files that it can write.
#include <pwd.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>

#include "tests/isolation/lab.hpp"

namespace filesystem_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

/// Home folders of this host that a sandbox must not see.
Words home_folders() {
    std::set<std::string> homes{"/home"};
    if (const passwd* self = ::getpwuid(::getuid()))
        homes.insert(self->pw_dir);
    if (const char* home = std::getenv("HOME"))
        homes.insert(home);
    Words there;
    for (const auto& home : homes) {
        const bool is_outside = home != "/" && !home.starts_with("/usr") && !home.starts_with("/tmp");
        if (is_outside && fs::is_directory(home) && ::access(home.c_str(), R_OK | X_OK) == 0)
            there.push_back(home);
    }
    REQUIRE_FALSE(there.empty());
    return there;
}

/// Files of the host that the tests' user can read.
Words host_secrets(const Lab& lab) {
    const fs::path data = lab.server.data_dir();
    Words paths = home_folders();
    for (const fs::path& path :
         {data, data / "atoll.db", data / "instance-id", data / "workspaces", data / "run",
          lab.services.socket_path().parent_path(), fs::path("/etc/hostname")})
        paths.push_back(path);
    if (is_root())
        paths.push_back("/etc/shadow");
    return paths;
}

/// Every way from inside to write the absolute path of a file outside.
Words spellings(const std::string& path, const Words& pids) {
    Words all{path,
              "/workspace/../../../.." + path,
              "/proc/self/root" + path,
              "/proc/self/cwd/../.." + path,
              "/proc/thread-self/root" + path,
              "/dev/fd/../root" + path};
    for (const auto& pid : pids)
        all.push_back("/proc/" + pid + "/root" + path);
    return all;
}

Words join(Words first, const Words& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

std::set<std::string> names_in(Sandbox& sandbox, const std::string& folder) {
    return lines_of(sandbox.output("ls -A1 " + folder));
}

struct Mount {
    std::string type;
    std::set<std::string> options;
};

std::map<std::string, Mount> mounts_of(Sandbox& sandbox) {
    std::map<std::string, Mount> mounts;
    std::istringstream table(sandbox.output("cat /proc/self/mounts"));
    for (std::string line; std::getline(table, line);) {
        std::istringstream fields(line);
        std::string source, target, options;
        Mount mount;
        fields >> source >> target >> mount.type >> options;
        std::istringstream list(options);
        for (std::string option; std::getline(list, option, ',');)
            mount.options.insert(option);
        mounts[target] = mount;
    }
    return mounts;
}

const std::set<std::string> k_absent = {"ENOENT", "ENOTDIR", "EACCES", "EPERM"};
const std::set<std::string> k_read_only = {"EROFS", "EACCES", "EPERM"};

}  // namespace

TEST_CASE("The host's secrets cannot be read by any path") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Words secrets = host_secrets(lab);
    Words readable = {"read"};
    CHECK(outside(join(readable, secrets)).others_than({"OK"}) == "");

    Sandbox sandbox(lab);
    const Words pids = {"1"};
    Words attempts = {"read"};
    for (const auto& secret : secrets) {
        if (secret != "/etc/hostname")  // a sandbox has one of its own
            attempts = join(attempts, spellings(secret, pids));
    }
    CHECK(sandbox.probe(attempts).others_than(k_absent) == "");
    CHECK(sandbox.probe(join({"read"}, spellings("/workspace/atoll-probe", {}))).others_than({"OK"}) == "");
    CHECK(sandbox.output("cat /etc/hostname") == "sandbox");
}

TEST_CASE("A symbolic link in the workspace leads to the sandbox's own files only") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const std::string secret = lab.server.data_dir() / "instance-id";
    fs::create_symlink(secret, sandbox.workspace() / "made-outside");
    sandbox.output("ln -s " + quoted(secret) +
                   " made-inside; ln -s / root; ln -s /workspace/atoll-probe own");

    const fs::path here = sandbox.workspace();
    CHECK(outside({"read", here / "made-outside", here / "made-inside", (here / "root").string() + secret})
              .others_than({"OK"}) == "");
    const Results inside = sandbox.probe(
        {"read", "/workspace/made-outside", "/workspace/made-inside", "/workspace/root" + secret});
    CHECK(inside.others_than({"ENOENT"}) == "");
    CHECK(sandbox.probe({"read", "/workspace/own"})["/workspace/own"] == "OK");
}

TEST_CASE("The root of a sandbox, its /etc, /run and /dev hold nothing but what they are made of") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    std::set<std::string> root{"agent", "atoll", "dev", "etc", "proc", "run", "tmp", "usr", "workspace"};
    for (const char* name : {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
        if (fs::exists(fs::symlink_status(fs::path("/") / name)))
            root.insert(name);
    }
    CHECK(names_in(sandbox, "/") == root);
    CHECK(names_in(sandbox, "/atoll") == std::set<std::string>{"guest"});
    CHECK(names_in(sandbox, "/agent").empty());
    // And the file of the shell that lists it (bridge/agents/shell_state.hpp).
    auto run = names_in(sandbox, "/run");
    CHECK(std::erase_if(run, [](const std::string& name) { return name.starts_with(".atoll-shell-"); }) <= 1);
    CHECK(run == std::set<std::string>{"atoll"});
    CHECK(names_in(sandbox, "/run/atoll") == std::set<std::string>{"bridge.sock"});
    CHECK(names_in(sandbox, "/dev") == std::set<std::string>{"core", "fd", "full", "null", "ptmx", "pts",
                                                             "random", "shm", "stderr", "stdin", "stdout",
                                                             "tty", "urandom", "zero"});
    const std::set<std::string> etc{"alternatives", "group",         "hostname", "hosts",       "ld.so.cache",
                                    "localtime",    "nsswitch.conf", "passwd",   "resolv.conf", "ssl"};
    // The rest is the host's own for everyone to read (etc_test.cpp).
    for (const auto& name : names_in(sandbox, "/etc")) {
        INFO(name);
        CHECK(
            (etc.contains(name) || run_outside({"test", "-r", "/etc/" + name}, ordinary_uid()).status == 0));
    }
    CHECK_FALSE(names_in(sandbox, "/etc/ssl").contains("private"));
    CHECK(lines_of(sandbox.output("ls -A1 /tmp /dev/shm | grep -v :; true")).empty());
}

TEST_CASE("Only the workspace and the small tmpfs mounts are writable, and nothing is setuid") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const auto mounts = mounts_of(sandbox);
    std::set<std::string> writable;
    for (const auto& [target, mount] : mounts) {
        INFO(target);
        CHECK(mount.options.contains("nosuid"));
        // A root server makes /dev an overlay of the nodes themselves: it is read-only, and no process inside
        // may make another node.
        const bool is_devices = target == "/dev" && mount.type == "overlay" && mount.options.contains("ro");
        CHECK((mount.options.contains("nodev") || mount.type == "devtmpfs" || mount.type == "devpts" ||
               target.starts_with("/dev/") || is_devices));
        if (!mount.options.contains("ro") && !target.starts_with("/dev/"))
            writable.insert(target);
    }
    CHECK(writable == std::set<std::string>{"/proc", "/run", "/tmp", "/workspace"});
    for (const char* target : {"/run", "/tmp", "/dev/shm"}) {
        REQUIRE(mounts.contains(target));
        CHECK(mounts.at(target).type == "tmpfs");
    }
    CHECK(mounts.at("/proc").type == "proc");
}

TEST_CASE("Writing outside the workspace and the tmpfs mounts is refused") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    CHECK(
        sandbox
            .probe({"write", "/workspace", "/tmp", "/dev/shm", "/run", "/workspace/atoll-probe", "/dev/null"})
            .others_than({"OK", "ETXTBSY"}) == "");
    const Results refused =
        sandbox.probe({"write",          "/",         "/dev",           "/dev/pts",
                       "/usr",           "/usr/bin",  "/usr/local/bin", "/bin/bash",
                       "/lib",           "/etc",      "/etc/passwd",    "/etc/resolv.conf",
                       "/etc/ssl/certs", "/atoll",    "/atoll/guest",   "/run/atoll",
                       "/proc",          "/proc/sys", "/proc/1",        "/proc/self/root"});
    CHECK(refused.others_than({"EROFS", "EACCES", "EPERM", "ENOENT", "EISDIR"}) == "");
    CHECK(sandbox
              .probe({"write", "/", "/dev", "/usr", "/usr/bin", "/etc", "/etc/ssl/certs", "/agent", "/atoll",
                      "/run/atoll"})
              .others_than({"EROFS"}) == "");
    if (is_root())
        CHECK(outside({"write", "/usr/bin", "/etc", "/etc/passwd"}).others_than({"OK"}) == "");
}

TEST_CASE("A file outside a sandbox is not changed by what happens to files inside") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const fs::path marked = lab.services.socket_path().parent_path() / "marked";
    std::ofstream(marked) << "as it was";
    fs::permissions(marked, fs::perms(0666));
    REQUIRE(outside({"write", marked}, ordinary_uid())[marked] == "OK");
    Sandbox sandbox(lab);
    sandbox.output("mkdir -p " + quoted(marked.parent_path()) + " && echo changed > " + quoted(marked));
    CHECK(read_host_file(marked) == "as it was");
}

TEST_CASE("The kernel's settings in /proc cannot be written, nor its memory and log be read") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    // The limit that keeps user namespaces away must not be raised again from inside.
    CHECK(sandbox.output("cat /proc/sys/user/max_user_namespaces") != "");
    const Results put = sandbox.probe(
        {"put", "1", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/core_pattern",
         "/proc/sys/kernel/hostname", "/proc/sys/kernel/ns_last_pid", "/proc/sys/net/ipv4/ip_forward",
         "/proc/sys/net/ipv4/ping_group_range", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
         "/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups", "/proc/1/oom_score_adj",
         "/proc/self/loginuid", "/proc/self/clear_refs"});
    CHECK(put.with("OK") == std::set<std::string>{"/proc/self/clear_refs"});
    const Words reads = {"read", "/proc/kcore", "/proc/kmsg", "/proc/kpagecount", "/proc/vmallocinfo"};
    CHECK(sandbox.probe(reads).others_than({"EACCES", "EPERM", "ENOENT"}) == "");
    if (is_root())
        CHECK_FALSE(outside(reads).with("OK").empty());
}

TEST_CASE("What /proc tells of the host's hardware and load is masked, and programs work without it") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    for (const std::string name : {"acpi", "asound", "bus", "fs", "irq", "pressure", "scsi"}) {
        INFO(name);
        if (fs::is_directory("/proc/" + name))
            CHECK(names_in(sandbox, "/proc/" + name).empty());
    }
    CHECK_FALSE(fs::is_empty("/proc/irq"));
    for (const std::string name : {"cmdline", "config.gz", "diskstats", "interrupts", "iomem"}) {
        INFO(name);
        if (fs::exists("/proc/" + name))
            CHECK(sandbox.output("wc -c </proc/" + name) == "0");
    }
    CHECK_FALSE(read_host_file("/proc/cmdline").empty());
    CHECK_FALSE(read_host_file("/proc/interrupts").empty());
    for (const char* name : {"cpuinfo", "loadavg", "meminfo", "stat", "uptime", "version", "self/status",
                             "self/mountinfo", "self/limits", "net/dev", "sys/kernel/osrelease"}) {
        INFO(name);
        CHECK(std::stoi(sandbox.output("wc -c </proc/" + std::string(name))) > 0);
    }
    CHECK(sandbox.output("ps -e -o comm= | grep -c guest") == "1");
    CHECK(sandbox.output("ls /proc/[0-9]*/cmdline | wc -l") != "0");
}

TEST_CASE("No trigger for pressure can be registered from inside") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const Words paths = {"/proc/pressure/memory", "/proc/pressure/cpu", "/proc/pressure/io",
                         "/proc/pressure/irq"};
    // A stall of half a second within two: gone when the descriptor is closed. The kernel cuts off the last
    // byte.
    const Results inside = sandbox.probe(join({"put", "some 500000 2000000 "}, paths));
    CHECK(inside.others_than({"ENOENT"}) == "");
    CHECK(sandbox.probe({"read", "/sys"})["/sys"] == "ENOENT");
    const std::string host = outside({"put", "some 500000 2000000 ", paths[0]})[paths[0]];
    if (host == "ENOENT" || host == "EOPNOTSUPP")
        SKIP("no control: this host accounts no pressure");
    if (host != "OK" && !is_root())
        SKIP("needs root for the control: outside it is " << host << " for this user");
    CHECK(host == "OK");
}

TEST_CASE("There is no terminal of the host's behind /dev/tty") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    CHECK(sandbox.probe({"read", "/dev/tty"})["/dev/tty"] == "ENXIO");
    CHECK(sandbox.output("ls /dev/pts") == "ptmx");
}

}  // namespace filesystem_test
