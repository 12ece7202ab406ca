// The launcher with the real bubblewrap and a script as the guest.
#include "core/isolation/bubblewrap_launcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <optional>

#include "core/base/pidfd.hpp"
#include "core/isolation/etc_template.hpp"
#include "core/isolation/host_probe.hpp"
#include "core/isolation/running_sandbox.hpp"
#include "core/isolation/user_namespace.hpp"
#include "fixture.hpp"

namespace launcher_test {

namespace {

using namespace atl;
using sandbox::ExitClass;
namespace fs = std::filesystem;

constexpr std::uint32_t k_test_uid = base::k_first_host_uid + 60'000'000;

/// A data directory of mode 0700 with a launcher on it.
struct Bench {
    test::TempFolder folder;
    test::Loop loop;
    isolation::LauncherConfig config;
    std::unique_ptr<isolation::BubblewrapLauncher> launcher;
    std::unique_ptr<sandbox::Process> process;
    std::optional<sandbox::Exit> exit;

    explicit Bench(const std::string& guest_script = "exit 0") {
        ::chmod(folder.path().c_str(), 0700);
        test::write_text(folder / "guest", "#!/bin/bash\n" + guest_script + "\n", 0755);
        fs::create_directory(folder / "workspace");
        if (test::is_root())
            REQUIRE(::chown((folder / "workspace").c_str(), k_test_uid, k_test_uid) == 0);
        config.guest = folder / "guest";
        config.run_dir = folder / "run";
        config.etc_dir = folder / "etc";
        config.masks_dir = folder / "masks";
        config.sources = {folder.path()};
        config.layout = isolation::probe_layout({}).value();
        config.uid_mode = test::is_root() ? isolation::UidMode::private_uid : isolation::UidMode::shared;
        REQUIRE(isolation::write_etc(config.etc_dir, config.layout).has_value());
        REQUIRE(isolation::make_masks(config.masks_dir).has_value());
        if (auto usable = isolation::probe_host(config); !usable)
            SKIP("no sandboxes on this host: " << usable.error().detail());
        reopen();
    }
    void reopen() {
        auto made = isolation::BubblewrapLauncher::create(loop.context.get_executor(), loop.timers, config);
        REQUIRE(made.has_value());
        launcher = std::move(*made);
    }
    sandbox::LaunchSpec spec() const {
        sandbox::LaunchSpec spec;
        spec.sandbox_id = "abcdefghij0123456789";
        spec.generation = 1;
        spec.host_uid = test::is_root() ? k_test_uid : 0;
        spec.workspace = folder / "workspace";
        spec.env = {{"PATH", "/usr/bin:/bin"}};
        return spec;
    }
    base::Result<void> launch(const sandbox::LaunchSpec& wanted) {
        auto started =
            launcher->launch(wanted, nullptr, [this](sandbox::Exit how) { exit = std::move(how); });
        if (!started)
            return started.error();
        process = std::move(*started);
        return {};
    }
    sandbox::Exit run() {
        REQUIRE(launch(spec()).has_value());
        REQUIRE(loop.run_until([this] { return exit.has_value(); }));
        return *exit;
    }
    std::string wrote(const std::string& name) const { return test::read_text(folder / "workspace" / name); }
    bool run_dir_is_empty() const { return fs::is_empty(folder / "run"); }
    /// Waits until the guest has said "up".
    bool await_up() {
        return loop.run_until([this] { return process->log_tail().find("up") != std::string::npos; });
    }
};

/// In the place of bwrap: names each parent of a source or of a destination that it may not read, and each
/// destination that is or lies behind a symlink, as the bubblewrap that fixes CVE-2026-87766 refuses them.
constexpr const char* k_argument_walker = R"(#!/bin/bash
mapfile -d '' -t words <&4
declare -A source_of=([/]='') links=()
refuse() { echo "refused $*"; }
look_at_parents() {
    local at=$1
    while [[ $at == /?* ]]; do
        at=${at%/*}
        [[ -r ${at:-/} && -x ${at:-/} ]] || refuse "${at:-/} of $2"
    done
}
look_at_destination() {
    local at='' covered=/ inside part
    IFS=/ read -ra parts <<<"${1#/}"
    for part in "${parts[@]}"; do
        at+=/$part
        [[ -v links[$at] ]] && refuse "link $at of $1"
        [[ -v source_of[$at] ]] && covered=$at && continue
        [[ -z ${source_of[$covered]} ]] && continue
        inside=${source_of[$covered]}${at#"$covered"}
        [[ -L $inside ]] && refuse "link $inside of $1"
        [[ $at == "$1" || (-r $inside && -x $inside) ]] || refuse "$inside of $1"
        [[ -e $inside ]] || refuse "missing $inside of $1"
    done
}
mounts=0
for ((i = 0; i < ${#words[@]}; ++i)); do
    word=${words[i]}
    case $word in
        --bind | --ro-bind | --dev-bind)
            from=${words[i + 1]} to=${words[i + 2]}
            look_at_parents "$from" "$to" && [[ -e $from ]] || refuse "missing $from"
            ;;
        --proc) from=/proc to=${words[i + 1]} ;;
        --tmpfs | --dev | --dir) from='' to=${words[i + 1]} ;;
        --symlink) links[${words[i + 2]}]=1 && continue ;;
        --remount-ro) look_at_destination "${words[i + 1]}" && continue ;;
        *) continue ;;
    esac
    look_at_destination "$to"
    source_of[$to]=$from
    mounts=$((mounts + 1))
done
echo "looked at $mounts mounts"
)";

/// Gone, or a zombie that waits for the host's init.
bool is_dead(pid_t pid) {
    const std::string stat = test::read_text("/proc/" + std::to_string(pid) + "/stat");
    return stat.empty() || stat.substr(stat.rfind(')')).starts_with(") Z");
}

}  // namespace

TEST_CASE("launcher: a guest's exit status is told, and nothing is left") {
    Bench bench("exit 7");
    const auto exit = bench.run();
    CHECK(exit.exit_class == ExitClass::exited);
    CHECK(exit.code == 7);
    bench.process.reset();
    CHECK(bench.run_dir_is_empty());
}

TEST_CASE("launcher: a guest that dies of a signal is told as such") {
    Bench bench("bash -c 'kill -SEGV $$'; exit $?");
    const auto exit = bench.run();
    CHECK(exit.exit_class == ExitClass::signalled);
    CHECK(exit.code == SIGSEGV);
}

TEST_CASE("launcher: a variable with a NUL byte adds no option, it fails the launch and leaves nothing") {
    Bench bench;
    auto spec = bench.spec();
    using namespace std::string_literals;
    const std::string options = "x\0--bind\0"s + bench.folder.path().string() + "/workspace\0/mnt"s;
    SECTION("in the value of a variable") {
        spec.env.emplace_back("A", options);
    }
    SECTION("in the name of a variable") {
        spec.env.emplace_back(options, "");
    }
    const auto launched = bench.launch(spec);
    REQUIRE_FALSE(launched.has_value());
    CHECK(launched.error().code() == base::Errc::sandbox_failed);
    CHECK(launched.error().detail().find("NUL") != std::string::npos);
    CHECK(bench.run_dir_is_empty());
    CHECK(bench.run().exit_class == ExitClass::exited);  // without it
}

TEST_CASE("launcher: no sandbox is started with the uid of a user of the host") {
    Bench bench;
    auto spec = bench.spec();
    for (const std::uint32_t uid : {1U, 1000U, base::k_first_host_uid - 1}) {
        spec.host_uid = uid;
        const auto launched = bench.launch(spec);
        REQUIRE_FALSE(launched.has_value());
        CHECK(launched.error().code() == base::Errc::internal);
    }
    CHECK(bench.run_dir_is_empty());
    CHECK(bench.run().exit_class == ExitClass::exited);  // with its own
}

TEST_CASE("launcher: a guest that cannot run is a failed set-up with a reason in the log") {
    Bench bench;
    test::write_text(bench.folder / "guest", "#!/bin/bash\n", 0644);
    const auto exit = bench.run();
    CHECK(exit.exit_class == ExitClass::setup_failed);
    CHECK(bench.process->log_tail().find("Permission denied") != std::string::npos);
}

TEST_CASE("launcher: a source that is missing is an error that names it, or a failed set-up") {
    Bench bench;
    auto spec = bench.spec();
    spec.workspace = bench.folder / "missing";
    if (auto started = bench.launch(spec); !started) {
        CHECK(started.error().code() == base::Errc::sandbox_failed);
        CHECK(started.error().detail().find("missing: No such file or directory") != std::string::npos);
    } else {
        REQUIRE(bench.loop.run_until([&] { return bench.exit.has_value(); }));
        CHECK(bench.exit->exit_class == ExitClass::setup_failed);
        bench.process.reset();
    }
    CHECK(bench.run_dir_is_empty());
}

TEST_CASE("launcher: a bwrap that is missing is an error that names it") {
    Bench bench;
    bench.config.bwrap = "/there/is/no/bwrap";
    bench.reopen();
    const auto started = bench.launch(bench.spec());
    REQUIRE_FALSE(started.has_value());
    CHECK(started.error().detail().find("/there/is/no/bwrap: No such file") != std::string::npos);
    CHECK(bench.run_dir_is_empty());
}

TEST_CASE("launcher: exactly descriptors 0 to 3 are open in the guest") {
    const base::UniqueFd leaked(::open("/dev/null", O_RDONLY));  // not close-on-exec
    REQUIRE(leaked);
    Bench bench("ls /proc/self/fd > /workspace/fds");
    (void)bench.run();
    CHECK(bench.wrote("fds") == "0\n1\n2\n3\n4\n");  // 4 is ls reading the folder
}

TEST_CASE("launcher: the guest has exactly the given environment") {
    ::setenv("DATABASE_URL", "secret", 1);
    Bench bench("tr '\\0' '\\n' < /proc/1/environ > /workspace/env");
    (void)bench.run();
    CHECK(bench.wrote("env") == "PATH=/usr/bin:/bin\nPWD=/workspace\n");
    ::unsetenv("DATABASE_URL");
}

TEST_CASE("launcher: the guest is process 1, without privileges, with both filters") {
    Bench bench("cat /proc/self/status > /workspace/status; echo $$ > /workspace/pid");
    (void)bench.run();
    const std::string status = bench.wrote("status");
    CHECK(bench.wrote("pid") == "1\n");
    for (const char* line : {"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "NoNewPrivs:\t1\n",
                             "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "Seccomp:\t2\n",
                             "Seccomp_filters:\t2\n", "Uid:\t1000\t1000\t1000\t1000\n", "Groups:\t"})
        CHECK(status.find(line) != std::string::npos);
}

TEST_CASE("launcher: only the workspace and the tmpfs mounts can be written") {
    Bench bench(
        "for at in / /usr /etc /dev /atoll /run/atoll /proc /workspace /tmp /run /dev/shm; do\n"
        "  if touch $at/x 2>/dev/null; then echo $at; fi\ndone > /workspace/writable");
    (void)bench.run();
    CHECK(bench.wrote("writable") == "/workspace\n/tmp\n/run\n/dev/shm\n");
}

TEST_CASE("launcher: the bridge's listener reaches the guest as descriptor 3") {
    Bench bench("exec /usr/bin/sleep 30");
    REQUIRE(bench.launch(bench.spec()).has_value());
    const std::string path = bench.process->bridge_path();
    CHECK(path.size() < sizeof(sockaddr_un::sun_path));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const base::UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    bench.process->kill();
    REQUIRE(bench.loop.run_until([&] { return bench.exit.has_value(); }));
    // The guest held the only listener: with it the connection ends.
    char byte = 0;
    CHECK(::recv(client.get(), &byte, 1, MSG_DONTWAIT) <= 0);
}

TEST_CASE("launcher: kill ends every process at whatever moment it comes") {
    Bench bench("sleep 1000 & setsid sleep 1000 & echo up; wait");
    for (const int wait_ms : {0, 1, 2, 3, 5, 8, 30}) {
        bench.exit.reset();
        REQUIRE(bench.launch(bench.spec()).has_value());
        (void)bench.loop.run_until([] { return false; }, std::chrono::milliseconds(wait_ms));
        bench.process->kill();
        REQUIRE(bench.loop.run_until([&] { return bench.exit.has_value(); }));
        CHECK(is_dead(bench.process->pid()));
        bench.process.reset();
    }
    CHECK(bench.run_dir_is_empty());
}

TEST_CASE("launcher: SIGTERM reaches the guest") {
    Bench bench("trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done");
    REQUIRE(bench.launch(bench.spec()).has_value());
    REQUIRE(bench.await_up());
    bench.process->terminate();
    REQUIRE(bench.loop.run_until([&] { return bench.exit.has_value(); }));
    CHECK(bench.exit->code == 5);
}

TEST_CASE("launcher: whoever kills bwrap kills the whole sandbox") {
    Bench bench("sleep 1000 & echo up; wait");
    REQUIRE(bench.launch(bench.spec()).has_value());
    // It is that of bwrap until bwrap has told which process is the first one inside.
    const pid_t at_first = bench.process->pid();
    REQUIRE(bench.await_up());
    REQUIRE(bench.loop.run_until([&] { return bench.process->pid() != at_first; }));
    const pid_t init = bench.process->pid();
    std::ifstream stat("/proc/" + std::to_string(init) + "/stat");
    std::string text;
    std::getline(stat, text);
    const pid_t bwrap = std::stoi(text.substr(text.rfind(')') + 4));
    REQUIRE(bwrap == at_first);
    REQUIRE(::kill(bwrap, SIGKILL) == 0);
    REQUIRE(bench.loop.run_until([&] { return bench.exit.has_value(); }));
    CHECK(is_dead(init));
    CHECK(bench.exit->exit_class == ExitClass::signalled);
}

TEST_CASE("launcher: a server that is killed leaves no process") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const base::UniqueFd read_end(ends[0]);
    base::UniqueFd write_end(ends[1]);
    const pid_t server = ::fork();
    if (server == 0) {
        Bench bench("sleep 1000 & echo up; wait");
        const bool up = bench.launch(bench.spec()).has_value() && bench.await_up();
        const pid_t init = up ? bench.process->pid() : 0;
        (void)!::write(write_end.get(), &init, sizeof init);
        ::pause();
        ::_exit(0);
    }
    write_end.reset();
    pid_t init = 0;
    const ssize_t count = ::read(read_end.get(), &init, sizeof init);
    const auto pidfd =
        count == sizeof init && init > 0 ? base::open_pidfd(init) : base::Error(base::Errc::internal);
    const bool was_alive = pidfd.has_value() && !is_dead(init);
    CHECK(::kill(server, SIGKILL) == 0);
    CHECK(::waitpid(server, nullptr, 0) == server);
    if (count != sizeof init)
        SKIP("no sandboxes on this host");
    REQUIRE(was_alive);
    pollfd gone{pidfd->get(), POLLIN, 0};
    CHECK(::poll(&gone, 1, test::k_client_deadline_ms) == 1);
}

TEST_CASE("launcher: a process object that is dropped takes its sandbox along and calls nobody") {
    Bench bench("sleep 1000");
    REQUIRE(bench.launch(bench.spec()).has_value());
    bench.process.reset();
    CHECK(bench.loop.run_until([&] { return bench.run_dir_is_empty(); }));
    CHECK_FALSE(bench.exit.has_value());
}

TEST_CASE("launcher: the log keeps the end of what was written") {
    Bench bench("head -c 200000 /dev/zero | tr '\\0' x; echo; echo the end");
    (void)bench.run();
    const std::string tail = bench.process->log_tail();
    CHECK(tail.size() == base::k_log_tail_bytes);
    CHECK(tail.ends_with("x\nthe end\n"));
}

TEST_CASE("launcher: who listens to the log gets all of it, and all before the end is told") {
    Bench bench("seq 20000; echo the end >&2");
    std::string heard;
    std::size_t heard_before_end = 0;
    auto started = bench.launcher->launch(bench.spec(), nullptr, [&](sandbox::Exit how) {
        bench.exit = std::move(how);
        heard_before_end = heard.size();
    });
    REQUIRE(started.has_value());
    bench.process = std::move(*started);
    bench.process->on_log([&heard](std::string_view text) { heard += text; });
    REQUIRE(bench.loop.run_until([&] { return bench.exit.has_value(); }));
    CHECK(heard.starts_with("1\n2\n3\n"));
    CHECK(heard.ends_with("20000\nthe end\n"));
    CHECK(heard.size() == 108'894 + 8);
    CHECK(heard_before_end == heard.size());
}

// [serial]: handlers are counted in a time.
TEST_CASE("launcher: a guest that floods its log does not grind the loop", "[serial]") {
    Bench bench("exec cat /dev/zero");
    REQUIRE(bench.launch(bench.spec()).has_value());
    const auto is_flooded = [&] { return bench.process->log_tail().size() == base::k_log_tail_bytes; };
    REQUIRE(bench.loop.run_until(is_flooded));
    std::size_t handlers = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (std::chrono::steady_clock::now() < deadline) {
        bench.loop.context.restart();
        handlers += bench.loop.context.run_one_until(deadline);
    }
    CHECK(handlers < 150);
    CHECK(is_flooded());
}

TEST_CASE("launcher: the host's network must be allowed by configuration") {
    Bench bench;
    auto spec = bench.spec();
    spec.network = sandbox::NetworkMode::host;
    CHECK(bench.launch(spec).error().code() == base::Errc::network_not_allowed);
    bench.config.host_network = isolation::HostNetwork::allowed;
    bench.reopen();
    CHECK(bench.launch(spec).has_value());
    REQUIRE(bench.loop.run_until([&] { return bench.exit.has_value(); }));
}

TEST_CASE("launcher: what an earlier run left in the run directory is gone") {
    Bench bench;
    test::write_text(bench.folder / "run/old-1/bridge.sock", "");
    bench.reopen();
    CHECK(bench.run_dir_is_empty());
}

TEST_CASE("launcher: one hundred launches leave no descriptor behind") {
    Bench bench("exit 0");
    const auto count = [] {
        return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
    };
    (void)bench.run();
    bench.process.reset();
    const auto before = count();
    for (int i = 0; i < 100; ++i) {
        bench.exit.reset();
        (void)bench.run();
        bench.process.reset();
    }
    CHECK(count() == before);
}

TEST_CASE("launcher: enforcement is told in the words of the API") {
    Bench bench;
    sandbox::Enforcement enforcement;
    bench.launcher->describe(enforcement, sandbox::NetworkMode::none);
    CHECK(enforcement.filesystem == "bubblewrap");
    CHECK(enforcement.network == "netns");
    CHECK(enforcement.syscalls == "seccomp");
    CHECK(enforcement.uid == (test::is_root() ? "private" : "shared"));
}

TEST_CASE("launcher: the sandbox's user may read each parent of a mount, and no mount lies behind a link") {
    const test::TempFolder tools;
    Bench bench;
    test::write_text(tools / "bwrap", k_argument_walker, 0755);
    bench.config.bwrap = tools / "bwrap";
    bench.config.host_network = isolation::HostNetwork::allowed;
    auto spec = bench.spec();
    spec.network = sandbox::NetworkMode::host;
    spec.agent_dir = bench.folder / "agent";
    fs::create_directory(*spec.agent_dir);
    const auto walk = [&] {
        bench.reopen();
        REQUIRE(bench.launch(spec).has_value());
        REQUIRE(bench.loop.run_until([&] { return bench.exit.has_value(); }));
        return bench.process->log_tail();
    };
    const std::string said = walk();
    INFO(said);
    REQUIRE(said.starts_with("looked at "));
    CHECK(std::stoi(said.substr(10)) >= 15);
    // The control.
    const fs::path locked = tools / "locked";
    test::write_text(locked / "resolv.conf", "", 0644);
    ::chmod(locked.c_str(), 0311);
    bench.config.layout.resolv_conf = locked / "resolv.conf";
    bench.config.layout.proc_files = {"/proc/mounts", "/proc/self/limits"};
    bench.exit.reset();
    const std::string found = walk();
    ::chmod(locked.c_str(), 0755);
    INFO(found);
    CHECK(found.find("refused " + locked.string() + " of /etc/resolv.conf\n") != std::string::npos);
    CHECK(found.find("refused link /proc/mounts of /proc/mounts\n") != std::string::npos);
    CHECK(found.find("refused link /proc/self of /proc/self/limits\n") != std::string::npos);
}

TEST_CASE("launcher: a kernel without memory for filters is named as what failed a launch") {
    Bench bench;
    ::chmod(bench.folder.path().c_str(), 0755);
    const auto end_of_launch = [&bench](const std::string& said) {
        test::write_text(bench.folder / "bwrap", "#!/bin/sh\necho '" + said + "' >&2\nexit 1\n", 0755);
        bench.config.bwrap = bench.folder / "bwrap";
        bench.process.reset();
        bench.exit.reset();
        bench.reopen();
        return bench.run();
    };
    const auto refused = end_of_launch("bwrap: prctl(PR_SET_SECCOMP): Unknown error 524");
    CHECK(refused.exit_class == ExitClass::setup_failed);
    CHECK(bench.launcher->failures().filters_refused == 1);
    CHECK(bench.launcher->failures().other == 0);
    CHECK(refused.detail.find("net.core.bpf_jit_limit") != std::string::npos);
    for (const char* other :
         {"bwrap: prctl(PR_SET_SECCOMP): Invalid argument", "bwrap: No such file or directory"}) {
        const auto failed = end_of_launch(other);
        CHECK(failed.exit_class == ExitClass::setup_failed);
        CHECK(bench.launcher->failures().filters_refused == 0);
        CHECK(bench.launcher->failures().other == 1);
    }
}

TEST_CASE("launcher: a crash inside runs no handler of core dumps, since the limit is 1") {
    Bench bench("grep -o 'core file size.*' /proc/self/limits | tr -s ' ' >limits");
    bench.run();
    CHECK(bench.wrote("limits") == "core file size 1 1 bytes \n");
}

TEST_CASE("host probe: a handler of core dumps that no limit keeps away is told") {
    const test::TempFolder folder;
    const auto risk = [&](const std::string& pattern) {
        test::write_text(folder / "kernel/core_pattern", pattern + "\n");
        return isolation::core_dump_risk({folder.path(), "/usr/bin/true"});
    };
    CHECK(risk("core") == "");
    CHECK(risk("|/usr/lib/systemd/systemd-coredump %P") == "");
    CHECK(risk("@/run/coredump.socket").find("socket") != std::string::npos);
}

TEST_CASE("host probe: what is missing is named, with what to do") {
    Bench bench;
    SECTION("no bwrap") {
        bench.config.bwrap = "/there/is/no/bwrap";
        const auto result = isolation::probe_host(bench.config);
        CHECK(result.error().code() == base::Errc::host_unsupported);
        CHECK(result.error().detail().ends_with(isolation::root_fix_line("apt-get install bubblewrap")));
    }
    SECTION("a bwrap that fails, and the kernel's switches") {
        test::write_text(bench.folder / "bwrap", "#!/bin/sh\necho no can do >&2\nexit 1\n", 0755);
        ::chmod(bench.folder.path().c_str(), 0755);
        bench.config.bwrap = bench.folder / "bwrap";
        const auto said = [&](const char* setting, const char* value) {
            test::write_text(bench.folder / "sys" / setting, value);
            const auto result = isolation::probe_host(bench.config, {bench.folder / "sys", "/usr/bin/true"});
            REQUIRE_FALSE(result.has_value());
            fs::remove_all(bench.folder / "sys");
            return result.error().detail();
        };
        CHECK(said("user/other", "1").find("bubblewrap said: no can do") != std::string::npos);
        CHECK(said("user/other", "1").find("FIX: ") == std::string::npos);
        CHECK(said("kernel/apparmor_restrict_unprivileged_userns", "1\n").find("AppArmor") !=
              std::string::npos);
        CHECK(said("user/max_user_namespaces", "0\n")
                  .ends_with(isolation::root_fix_line("sysctl -w user.max_user_namespaces=15000")));
        CHECK(said("kernel/unprivileged_userns_clone", "0\n")
                  .ends_with(isolation::root_fix_line("sysctl -w kernel.unprivileged_userns_clone=1")));
    }
    SECTION("root of a container, without uids for sandboxes") {
        if (!test::is_root())
            SKIP("only root gives uids to sandboxes");
        const auto said = [&](const std::string& uid_map) {
            test::write_text(bench.folder / "uid_map", uid_map);
            const auto result =
                isolation::probe_host(bench.config, {"/proc/sys", "/usr/bin/true", bench.folder / "uid_map"});
            return result ? "" : result.error().detail();
        };
        const std::string first = std::to_string(base::k_first_host_uid);
        CHECK(said("0 0 4294967295\n") == "");
        CHECK(said("0 100000 65536\n" + first + " 200000 " + std::to_string(base::k_host_uids_per_block) +
                   "\n") == "");
        const std::string detail = said("0 100000 65536\n");
        INFO(detail);
        CHECK(detail.find("maps none from " + first + " on") != std::string::npos);
        CHECK(detail.find("another user than root") != std::string::npos);
        CHECK(detail.find("docs/operations/containers.md") != std::string::npos);
        CHECK(detail.ends_with("\nFIX: docker run --user 1000 ..."));
    }
    SECTION("what bwrap says, and what it means") {
        const auto [words, meaning] = GENERATE(table<std::string, std::string>({
            {"Unknown option --disable-userns", "older than 0.8"},
            {"Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"},
            {"No permissions to create new namespace, likely because", "seccomp=unconfined"},
            {"Creating new namespace failed: Operation not permitted", "seccomp=unconfined"},
        }));
        test::write_text(bench.folder / "bwrap", "#!/bin/sh\necho \"bwrap: " + words + "\" >&2\nexit 1\n",
                         0755);
        ::chmod(bench.folder.path().c_str(), 0755);
        bench.config.bwrap = bench.folder / "bwrap";
        const std::string detail = isolation::probe_host(bench.config).error().detail();
        INFO(detail);
        CHECK(detail.find(meaning) != std::string::npos);
        // A line of bubblewrap's is no line of ours.
        CHECK(detail.find("bubblewrap said: bwrap: ") < detail.find("\nFIX: "));
        CHECK(detail.find("\nFIX: ") != std::string::npos);
    }
}

}  // namespace launcher_test
