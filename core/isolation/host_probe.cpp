#include "core/isolation/host_probe.hpp"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/asio_timers.hpp"
#include "core/base/fix.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/isolation/private_mounts.hpp"
#include "core/isolation/program_output.hpp"
#include "core/isolation/user_namespace.hpp"

namespace atl::isolation {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds k_probe_deadline{10};
constexpr std::size_t k_max_version_bytes = 64;

struct Trial {
    std::optional<sandbox::Exit> exit;
    std::string log;
};

base::Error probe_unsupported(std::string detail) {
    return base::Error(base::Errc::host_unsupported, std::move(detail));
}

std::string setting(const fs::path& proc_sys, const char* name) {
    std::ifstream in(proc_sys / name);
    std::string value;
    in >> value;
    return value;
}

/// True if a child may set its core limit (RLIMIT_CORE) to 1: this tries it, and restores the old limit.
bool can_have_core_limit() {
    rlimit before{};
    if (::getrlimit(RLIMIT_CORE, &before) != 0 || before.rlim_max >= 1)
        return true;
    const rlimit one{0, 1};
    if (::setrlimit(RLIMIT_CORE, &one) != 0)
        return false;
    ::setrlimit(RLIMIT_CORE, &before);
    return true;
}

/// Why a trial sandbox failed, and what the operator runs: lines of base::fix_line().
struct Cause {
    std::string why;
    std::string fix{};
};

Cause cause_of(const ProbePaths& paths, const std::string& log) {
    const auto switched = [](std::string why, const std::string& value) {
        return Cause{std::move(why) + ": set sysctl " + value, root_fix_line("sysctl -w " + value)};
    };
    if (log.find("Unknown option") != std::string::npos)
        return {"bubblewrap is older than 0.8: install a newer one",
                root_fix_line("apt-get install --only-upgrade bubblewrap")};
    if (setting(paths.proc_sys, "kernel/apparmor_restrict_unprivileged_userns") == "1")
        return switched(
            "AppArmor restricts unprivileged user namespaces and has no profile that lets bubblewrap make "
            "one: install one for /usr/bin/bwrap (docs/operations/install.md), or "
            "switch the restriction off",
            "kernel.apparmor_restrict_unprivileged_userns=0");
    if (setting(paths.proc_sys, "user/max_user_namespaces") == "0")
        return switched("user namespaces are switched off", "user.max_user_namespaces=15000");
    if (setting(paths.proc_sys, "kernel/unprivileged_userns_clone") == "0")
        return switched("unprivileged user namespaces are switched off",
                        "kernel.unprivileged_userns_clone=1");
    // mount(2) of a procfs in a user namespace needs one in view of which nothing is covered.
    if (log.find("mount proc") != std::string::npos)
        return {
            "parts of /proc are masked, as container engines do it, so nothing in this container may "
            "mount a /proc: start it with another option (LXC: security.nesting=true); what that costs "
            "is in docs/operations/containers.md",
            base::fix_line("docker run --security-opt systempaths=unconfined ...") +
                base::fix_line("podman run --security-opt unmask=ALL ...")};
    if (log.find("reating new namespace") != std::string::npos ||
        log.find("create new namespace") != std::string::npos)
        return {
            "this user may make no user namespace; in a container its seccomp filter refuses it: start "
            "it with other options; docs/operations/containers.md tells what that costs",
            base::fix_line("docker run --security-opt seccomp=unconfined --security-opt "
                           "apparmor=unconfined ...") +
                base::fix_line("podman run --security-opt seccomp=unconfined ...")};
    return {"a trial sandbox failed"};
}

/// Root of a user namespace without uids for sandboxes, as in many containers; empty elsewhere.
std::string why_no_uids(const LauncherConfig& config, const fs::path& uid_map) {
    if (config.uid_mode != UidMode::private_uid || ::geteuid() != 0 ||
        mapped_host_uids(uid_map) >= base::k_host_uids_per_block)
        return {};
    return "root of this container has no uids to give to sandboxes: its user namespace maps none from " +
           std::to_string(base::k_first_host_uid) +
           " on. Start the server there as another user than root, or the container with ids of the host "
           "(docs/operations/containers.md)" +
           base::fix_line("docker run --user 1000 ...");
}

// The trial uses the launcher itself: a host that passes the trial can run sandboxes.
base::Result<Trial> run_trial(LauncherConfig config, const fs::path& workspace) {
    boost::asio::io_context loop(1);
    base::AsioTimers timers(loop.get_executor());
    auto launcher = BubblewrapLauncher::create(loop.get_executor(), timers, std::move(config));
    if (!launcher)
        return launcher.error();
    sandbox::LaunchSpec spec;
    spec.sandbox_id = "probe";
    spec.host_uid = ::geteuid() == 0 ? probe_uid() : 0;
    spec.workspace = workspace;
    Trial trial;
    auto process =
        (*launcher)->launch(spec, nullptr, [&trial](sandbox::Exit exit) { trial.exit = std::move(exit); });
    if (!process)
        return process.error();
    const auto deadline = std::chrono::steady_clock::now() + k_probe_deadline;
    while (!trial.exit && loop.run_one_until(deadline) > 0) {
    }
    trial.log = (*process)->log_tail();
    process->reset();
    timers.stop();
    loop.run_for(std::chrono::seconds(1));
    return trial;
}

bool succeeded(const Trial& trial) {
    return trial.exit && trial.exit->exit_class == sandbox::ExitClass::exited && trial.exit->code == 0;
}

}  // namespace

base::Result<void> probe_host(const LauncherConfig& config, const ProbePaths& paths) {
    if (::access(config.bwrap.c_str(), X_OK) != 0)
        return probe_unsupported(base::errno_text(config.bwrap, errno) + ": install bubblewrap 0.8 or newer" +
                                 root_fix_line("apt-get install bubblewrap"));
    if (std::string why = why_no_uids(config, paths.uid_map); !why.empty())
        return probe_unsupported(std::move(why));
    LauncherConfig trial_config = config;
    trial_config.guest = paths.guest;
    trial_config.run_dir = config.run_dir / "probe";
    const fs::path workspace = config.run_dir / "probe-workspace";
    trial_config.sources.push_back(workspace);
    std::error_code error;
    fs::create_directories(workspace, error);
    auto trial = run_trial(std::move(trial_config), workspace);
    fs::remove_all(workspace, error);
    fs::remove_all(config.run_dir / "probe", error);
    if (!trial)
        return probe_unsupported("a trial sandbox could not be started: " + trial.error().detail());
    if (succeeded(*trial))
        return {};
    Cause cause = cause_of(paths, trial->log);
    if (!trial->log.empty())
        cause.why += "; bubblewrap said: " + base::escaped(trial->log);
    return probe_unsupported(cause.why + cause.fix);
}

std::string core_dump_risk(const ProbePaths& paths) {
    const std::string pattern = setting(paths.proc_sys, "kernel/core_pattern");
    if (pattern.starts_with('@'))
        return "kernel.core_pattern names a socket: its handler gets the core dumps of sandboxes, too";
    if (pattern.starts_with('|') && !can_have_core_limit())
        return "kernel.core_pattern names a program, and the server may not raise its limit of core dumps "
               "(hard "
               "RLIMIT_CORE) from 0 to 1: that program runs as the host's root for each crash in a sandbox; "
               "start "
               "the server with a hard limit of 1 or more (systemd: LimitCORE=0:1)";
    return {};
}

std::string bwrap_version(const std::string& bwrap) {
    const auto told = run_program(bwrap, {"--version"});
    if (!told || told->exit_code != 0)
        return {};
    // "bubblewrap 0.8.0"
    std::istringstream words(told->text.substr(0, k_max_version_bytes));
    std::string name;
    std::string version;
    words >> name >> version;
    return version;
}

std::string running_kernel() {
    utsname name{};
    return ::uname(&name) == 0 ? name.release : "";
}

bool counts_processes_by_namespace(const std::string& kernel_release) {
    int major = 0;
    int minor = 0;
    return std::sscanf(kernel_release.c_str(), "%d.%d", &major, &minor) == 2 &&
           std::pair(major, minor) >= std::pair(5, 14);
}

ProcessLimit best_process_limit(const sandbox::Enforcement& by_groups, const std::string& kernel_release) {
    return by_groups.processes == "none" && counts_processes_by_namespace(kernel_release)
               ? ProcessLimit::rlimit
               : ProcessLimit::group;
}

base::Result<void> prepare_host(const LauncherConfig& config) {
    if (auto probed = probe_host(config); !probed)
        return probed;
    if (const std::string risk = core_dump_risk(); !risk.empty())
        base::LogLine(base::evt::core_dumps_handled).quoted("err", risk).warn();
    return config.uid_mode == UidMode::private_uid ? keep_in_memory(config.run_dir) : base::Result<void>();
}

}  // namespace atl::isolation
