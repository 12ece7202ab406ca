#include "core/isolation/profile.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "fixture.hpp"

namespace profile_test {

namespace {

using namespace atl;
using Arguments = std::vector<std::string>;

isolation::HostLayout merged_usr_host() {
    isolation::HostLayout layout;
    layout.links = {{"/bin", "usr/bin"}, {"/lib64", "usr/lib64"}};
    layout.etc_folders = {"/etc/ssl/certs"};
    layout.etc_files = {"/etc/ld.so.cache"};
    layout.resolv_conf = "/run/resolv.conf";
    layout.proc_folders = {"/proc/pressure"};
    layout.proc_files = {"/proc/cmdline"};
    return layout;
}

const isolation::ProfileSources k_sources{"/s/workspace", "/s/agent", "/s/guest",
                                          "/s/bridge",    "/s/etc",   "/s/masks"};

std::size_t position(const Arguments& arguments, const Arguments& words) {
    return static_cast<std::size_t>(
        std::search(arguments.begin(), arguments.end(), words.begin(), words.end()) - arguments.begin());
}

bool holds(const Arguments& arguments, const Arguments& words) {
    return position(arguments, words) < arguments.size();
}

}  // namespace

TEST_CASE("an issuer of the sandbox's own is with those of the host, at one path on every host") {
    sandbox::LaunchSpec spec;
    spec.issuer = "PEM";
    auto layout = merged_usr_host();
    layout.bundle = "/etc/ssl/certs/ca-certificates.crt";
    layout.shows_bundle = true;
    const Arguments usual = profile_arguments(layout, spec, k_sources);
    const Arguments data{"--perms", "0444", "--ro-bind-data", "8", layout.bundle};
    CHECK(holds(usual, data));
    CHECK(position(usual, {"--ro-bind", "/etc/ssl/certs", "/etc/ssl/certs"}) < position(usual, data));
    CHECK(holds(usual, {"--symlink", layout.bundle, "/atoll/certificates.crt"}));
    layout.bundle = "/etc/pki/tls/certs/ca-bundle.crt";
    layout.shows_bundle = false;
    const Arguments other = profile_arguments(layout, spec, k_sources);
    CHECK(holds(other, {"--dir", "/atoll"}));
    CHECK(holds(other, {"--perms", "0444", "--ro-bind-data", "8", "/atoll/certificates.crt"}));
    CHECK_FALSE(holds(other, {layout.bundle}));
    spec.issuer.clear();
    CHECK_FALSE(holds(profile_arguments(layout, spec, k_sources), {"--ro-bind-data"}));
}

TEST_CASE("the profile is exactly this list of arguments") {
    sandbox::LaunchSpec spec;
    spec.env = {{"PATH", "/usr/bin"}, {"HOME", "/workspace"}};
    const Arguments expected = {"--unshare-user",
                                "--unshare-pid",
                                "--unshare-ipc",
                                "--unshare-uts",
                                "--unshare-cgroup",
                                "--unshare-net",
                                "--disable-userns",
                                "--cap-drop",
                                "ALL",
                                "--new-session",
                                "--die-with-parent",
                                "--as-pid-1",
                                "--uid",
                                "1000",
                                "--gid",
                                "1000",
                                "--hostname",
                                "sandbox",
                                "--clearenv",
                                "--setenv",
                                "PATH",
                                "/usr/bin",
                                "--setenv",
                                "HOME",
                                "/workspace",
                                "--ro-bind",
                                "/usr",
                                "/usr",
                                "--symlink",
                                "usr/bin",
                                "/bin",
                                "--symlink",
                                "usr/lib64",
                                "/lib64",
                                "--ro-bind",
                                "/s/etc",
                                "/etc",
                                "--ro-bind",
                                "/etc/ssl/certs",
                                "/etc/ssl/certs",
                                "--ro-bind",
                                "/etc/ld.so.cache",
                                "/etc/ld.so.cache",
                                "--proc",
                                "/proc",
                                "--ro-bind",
                                "/s/masks/folder",
                                "/proc/pressure",
                                "--ro-bind",
                                "/s/masks/file",
                                "/proc/cmdline",
                                "--dev",
                                "/dev",
                                "--size",
                                "67108864",
                                "--perms",
                                "1777",
                                "--tmpfs",
                                "/dev/shm",
                                "--remount-ro",
                                "/dev",
                                "--size",
                                "268435456",
                                "--perms",
                                "1777",
                                "--tmpfs",
                                "/tmp",
                                "--size",
                                "16777216",
                                "--perms",
                                "0755",
                                "--tmpfs",
                                "/run",
                                "--bind",
                                "/s/workspace",
                                "/workspace",
                                "--ro-bind",
                                "/s/agent",
                                "/agent",
                                "--dir",
                                "/atoll",
                                "--ro-bind",
                                "/s/guest",
                                "/atoll/guest",
                                "--ro-bind",
                                "/s/bridge",
                                "/run/atoll",
                                "--remount-ro",
                                "/",
                                "--chdir",
                                "/workspace",
                                "--json-status-fd",
                                "7",
                                "--add-seccomp-fd",
                                "5",
                                "--add-seccomp-fd",
                                "6"};
    CHECK(isolation::profile_arguments(merged_usr_host(), spec, k_sources) == expected);
}

TEST_CASE("with the host's network the net namespace is shared and the host's resolver is shown") {
    sandbox::LaunchSpec spec;
    spec.network = sandbox::NetworkMode::host;
    const auto arguments = isolation::profile_arguments(merged_usr_host(), spec, k_sources);
    CHECK_FALSE(holds(arguments, {"--unshare-net"}));
    CHECK(holds(arguments, {"--ro-bind", "/run/resolv.conf", "/etc/resolv.conf"}));
    spec.network = sandbox::NetworkMode::none;
    CHECK_FALSE(holds(isolation::profile_arguments(merged_usr_host(), spec, k_sources),
                      {"--ro-bind", "/run/resolv.conf", "/etc/resolv.conf"}));
}

TEST_CASE("only the host's network itself shares the net namespace, not a mode that there is not") {
    sandbox::LaunchSpec spec;
    for (const auto mode : {sandbox::NetworkMode::egress, static_cast<sandbox::NetworkMode>(3)}) {
        spec.network = mode;
        const auto arguments = isolation::profile_arguments(merged_usr_host(), spec, k_sources);
        CHECK(holds(arguments, {"--unshare-net"}));
        CHECK_FALSE(holds(arguments, {"--ro-bind", "/run/resolv.conf", "/etc/resolv.conf"}));
    }
}

TEST_CASE("a host without merged /usr shows its program folders as folders") {
    isolation::HostLayout layout;
    layout.folders = {"/bin", "/lib"};
    const auto arguments = isolation::profile_arguments(layout, {}, k_sources);
    CHECK(holds(arguments, {"--ro-bind", "/bin", "/bin"}));
    CHECK_FALSE(holds(arguments, {"--symlink"}));
}

TEST_CASE("hidden parts of /usr are masked on top of it") {
    auto layout = merged_usr_host();
    layout.hidden_folders = {"/usr/local"};
    layout.hidden_files = {"/usr/bin/gcc"};
    const auto arguments = isolation::profile_arguments(layout, {}, k_sources);
    const std::size_t usr = position(arguments, {"--ro-bind", "/usr", "/usr"});
    CHECK(position(arguments, {"--tmpfs", "/usr/local", "--remount-ro", "/usr/local"}) > usr);
    CHECK(holds(arguments, {"--tmpfs", "/usr/local", "--remount-ro", "/usr/local"}));
    CHECK(holds(arguments, {"--ro-bind", "/dev/null", "/usr/bin/gcc"}));
}

TEST_CASE("without an agent folder /agent is an empty one, in the root that is read-only") {
    auto sources = k_sources;
    sources.agent_dir.clear();
    const auto arguments = isolation::profile_arguments(merged_usr_host(), {}, sources);
    CHECK(position(arguments, {"--dir", "/agent"}) < position(arguments, {"--remount-ro", "/"}));
    CHECK_FALSE(holds(arguments, {"/agent", "--ro-bind", "/s/agent"}));
}

TEST_CASE("the program of agents' adapters is shown beside the guest, read-only, where it is given") {
    auto sources = k_sources;
    const Arguments shown = {"--ro-bind", "/s/program", "/atoll/agent"};
    CHECK_FALSE(holds(isolation::profile_arguments(merged_usr_host(), {}, sources), {"/atoll/agent"}));
    sources.agent_program = "/s/program";
    const auto arguments = isolation::profile_arguments(merged_usr_host(), {}, sources);
    CHECK(position(arguments, {"/s/guest", "/atoll/guest"}) < position(arguments, shown));
    CHECK(position(arguments, shown) < position(arguments, {"--remount-ro", "/", "--chdir"}));
}

TEST_CASE("without a workspace there is an empty folder in its place, in the root that is read-only") {
    auto sources = k_sources;
    sources.workspace.clear();
    const auto arguments = isolation::profile_arguments(merged_usr_host(), {}, sources);
    CHECK_FALSE(holds(arguments, {"--bind"}));
    CHECK(position(arguments, {"--dir", "/workspace"}) <
          position(arguments, {"--remount-ro", "/", "--chdir"}));
}

TEST_CASE("the command line that every user of the host can see holds no argument of the profile") {
    CHECK(isolation::command_line() == Arguments{"--args", "4", "--", "/atoll/guest"});
}

TEST_CASE("the profile as text has one mount or option a line") {
    const std::string text = isolation::profile_text(
        {"--unshare-pid", "--setenv", "A", "--proc", "--size", "5", "--perms", "1777", "--tmpfs", "/tmp"});
    CHECK(text == "--unshare-pid\n--setenv A --proc\n--size 5 --perms 1777 --tmpfs /tmp\n");
}

TEST_CASE("the host's layout tells links from folders and finds what /etc shows") {
    const test::TempFolder root;
    namespace fs = std::filesystem;
    fs::create_directories(root / "usr/bin");
    fs::create_directories(root / "usr/local/lib");
    fs::create_symlink("usr/bin", root / "bin");
    fs::create_directory(root / "lib");
    fs::create_directories(root / "etc/ssl/certs");
    test::write_text(root / "etc/ssl/certs/ca-certificates.crt", "x");
    test::write_text(root / "etc/ld.so.cache", "x");
    test::write_text(root / "usr/bin/tool", "x");
    test::write_text(root / "run/resolv.conf", "nameserver 127.0.0.53\n");
    test::write_text(root / "proc/pressure/cpu", "x", 0666);
    fs::create_directory(root / "proc/scsi");
    fs::create_directory(root / "proc/tty");
    test::write_text(root / "proc/cmdline", "x", 0444);
    test::write_text(root / "proc/meminfo", "x", 0444);
    test::write_text(root / "proc/kcore", "x", 0400);
    fs::create_symlink("../run/resolv.conf", root / "etc/resolv.conf");
    const auto layout = isolation::probe_layout({"/usr/local", "/bin/tool"}, root.path());
    REQUIRE(layout.has_value());
    CHECK(layout->links == std::vector<std::pair<std::string, std::string>>{{"/bin", "usr/bin"}});
    CHECK(layout->folders == Arguments{"/lib"});
    CHECK(layout->etc_folders == Arguments{"/etc/ssl/certs"});
    CHECK(layout->etc_files == Arguments{"/etc/ld.so.cache"});
    CHECK(layout->proc_folders == Arguments{"/proc/pressure"});
    CHECK(layout->proc_files == Arguments{"/proc/cmdline"});
    CHECK(layout->hidden_folders == Arguments{"/usr/local"});
    CHECK(layout->hidden_files == Arguments{"/usr/bin/tool"});
    CHECK(layout->resolv_conf == (root / "run/resolv.conf").string());
    CHECK(layout->bundle == "/etc/ssl/certs/ca-certificates.crt");
    CHECK(layout->shows_bundle);
    fs::rename(root / "etc/ssl/certs/ca-certificates.crt", root / "etc/bundle");
    fs::create_symlink("../../bundle", root / "etc/ssl/certs/ca-certificates.crt");
    CHECK_FALSE(isolation::probe_layout({}, root.path())->shows_bundle);
}

TEST_CASE("PATH inside holds the folders of the host's that are there, each once") {
    const test::TempFolder root;
    namespace fs = std::filesystem;
    for (const char* name :
         {"usr/bin", "usr/sbin", "usr/local/bin", "usr/games", "sbin", "opt/tool/bin", "home/me/bin"})
        fs::create_directories(root / name);
    fs::create_symlink("usr/bin", root / "bin");
    fs::create_symlink(root / "opt/tool/bin", root / "usr/tool");
    fs::create_symlink("bin", root / "usr/more");
    test::write_text(root / "usr/file", "x");
    const auto layout = isolation::probe_layout({"/usr/games"}, root.path());
    REQUIRE(layout.has_value());
    const auto inner = [&](std::string_view path) {
        return isolation::inner_path(*layout, path, root.path());
    };
    CHECK(inner("/home/me/bin:/usr/local/bin:/usr/bin:/bin:/sbin:/opt/tool/bin") ==
          "/usr/local/bin:/usr/bin:/bin:/sbin");
    CHECK(inner("/usr/more:/usr/bin/:/usr/bin::/usr/bin:bin:.:/usr/none:/usr/file:/usr/tool:/usr/games") ==
          "/usr/more:/usr/bin/:/usr/bin");
    CHECK(inner("/usr/../opt/tool/bin:/usr/../usr/sbin") == "/usr/../usr/sbin");
    for (const char* none : {"", ":", "/home/me/bin", "/usr/games", "relative"})
        CHECK(inner(none) == "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
}

TEST_CASE("a path to hide must exist and be one that is shown") {
    CHECK(isolation::probe_layout({"/usr/there-is-no-such-path"}).error().code() ==
          base::Errc::invalid_field);
    CHECK(isolation::probe_layout({"/etc"}).error().code() == base::Errc::invalid_field);
    CHECK(isolation::probe_layout({"/usr"}).error().code() == base::Errc::invalid_field);
}

TEST_CASE("views of the host, its devices and a devpts take the places of the host's own") {
    sandbox::LaunchSpec spec;
    isolation::HostLayout layout = merged_usr_host();
    layout.hidden_files = {"/usr/bin/secret"};
    isolation::ProfileSources sources = k_sources;
    sources.ptys = "/s/ptys";
    const Arguments bound = isolation::profile_arguments(layout, spec, sources);
    CHECK(position(bound, {"--dev", "/dev"}) < position(bound, {"--dev-bind", "/s/ptys", "/dev/pts"}));
    CHECK(holds(bound, {"--ro-bind", "/dev/null", "/usr/bin/secret"}));

    sources = k_sources;
    sources.host_root = "/v";
    sources.dev = "/v-dev";
    const Arguments viewed = isolation::profile_arguments(layout, spec, sources);
    CHECK(holds(viewed, {"--ro-bind", "/v/usr", "/usr"}));
    CHECK(holds(viewed, {"--ro-bind", "/v/etc/ssl/certs", "/etc/ssl/certs"}));
    CHECK(holds(viewed, {"--ro-bind", "/v/etc/ld.so.cache", "/etc/ld.so.cache"}));
    CHECK(holds(viewed, {"--ro-bind", "/v-dev/null", "/usr/bin/secret"}));
    CHECK(position(viewed, {"--dev-bind", "/v-dev", "/dev"}) < position(viewed, {"--tmpfs", "/dev/shm"}));
    CHECK_FALSE(holds(viewed, {"--dev", "/dev"}));
    CHECK_FALSE(holds(viewed, {"--remount-ro", "/dev"}));
}

}  // namespace profile_test
