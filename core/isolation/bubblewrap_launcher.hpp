// The Launcher of the server: starts each generation of a sandbox in bubblewrap. As root every sandbox has a
// host uid of its own, and its sources are staged where that uid can reach them; rootless, all sandboxes
// share the server's uid. The profile is the same.
// Invariants: a launch that fails leaves nothing behind; if the server, bwrap or the guest dies, the others
// die too (prctl(2) PR_SET_PDEATHSIG, pid_namespaces(7)); on_exit means that no process is left.
// Not here: the content of the profile (profile.hpp), when to start and end (core/sandbox), the bridge
// protocol.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/task.hpp"
#include "core/isolation/host_layout.hpp"
#include "core/isolation/profile.hpp"
#include "core/isolation/seccomp.hpp"
#include "core/isolation/spawn.hpp"
#include "core/isolation/staging.hpp"
#include "core/isolation/uid_leases.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::isolation {

class Orphans;
struct LaunchFailures;

/// The enforcer of a sandbox's `maxProcesses`. `group`: its cgroup, if it has one. `rlimit`: the guest, by
/// RLIMIT_NPROC.
enum class ProcessLimit : std::uint8_t { group, rlimit };
enum class HostNetwork : std::uint8_t { refused, allowed };

/// The launcher's configuration. Paths are absolute; no value changes while the server runs.
struct LauncherConfig {
    std::string bwrap = "/usr/bin/bwrap";
    std::filesystem::path zygote{};  // atoll-zygote, where the server may not join net namespaces; else empty
    std::filesystem::path guest;     // the guest's binary, readable and executable by everyone
    /// atoll-agent in the same folder; empty: none, and no agent may need it.
    std::filesystem::path agent_program = {};
    std::filesystem::path run_dir;    // holds the bridge sockets; only this server's, emptied at start
    std::filesystem::path etc_dir;    // write_etc() made it
    std::filesystem::path masks_dir;  // make_masks() made it
    HostLayout layout;
    std::vector<std::filesystem::path> sources;  // below them lie all workspaces and agents
    UidMode uid_mode = UidMode::shared;
    ProcessLimit process_limit = ProcessLimit::group;
    HostNetwork host_network = HostNetwork::refused;
};

class BubblewrapLauncher final : public sandbox::Launcher {
  public:
    ~BubblewrapLauncher() override;
    /// Makes or empties the run directory and compiles the filters. `timers` outlives the launcher and all
    /// its processes. Errors: host_unsupported, storage_failed.
    static base::Result<std::unique_ptr<BubblewrapLauncher>> create(base::Executor executor,
                                                                    base::Timers& timers,
                                                                    LauncherConfig config);

    base::Result<std::unique_ptr<sandbox::Process>> launch(
        const sandbox::LaunchSpec& spec, sandbox::ResourceGroup* group,
        std::function<void(sandbox::Exit)> on_exit) override;
    void describe(sandbox::Enforcement& enforcement, sandbox::NetworkMode network) const override;
    /// For the server's end: the loop no longer waits for any process. Processes that are not reaped yet have
    /// been killed.
    void let_go();

    const LaunchFailures& failures() const noexcept { return *failures_; }
    /// Files of the host that sandboxes see with the host's own inodes, so that locks and watches on them
    /// reach others, and why.
    std::map<std::string, std::string> shared_host_files() const;

    /// The profile as launch() would apply it, as text; the staged mounts come first, as comments.
    std::string profile(const sandbox::LaunchSpec& spec) const;

  private:
    struct Descriptors;
    std::vector<std::string> arguments_of(const sandbox::LaunchSpec& spec, const std::string& folder) const;

    BubblewrapLauncher(base::Executor executor, base::Timers& timers, LauncherConfig config,
                       SeccompFilters filters, base::UniqueFd run_dir, Staging staging);
    base::Result<Descriptors> open_descriptors(const sandbox::LaunchSpec& spec,
                                               const std::string& folder) const;
    ProfileSources sources(const sandbox::LaunchSpec& spec, const std::string& folder) const;
    ChildPlan plan(const sandbox::LaunchSpec& spec, sandbox::ResourceGroup* group, const std::string& folder,
                   const Descriptors& fds) const;
    base::Result<Spawned> start_in(sandbox::ResourceGroup* group, const ChildPlan& plan) const;

    base::Executor executor_;
    base::Timers& timers_;
    LauncherConfig config_;
    SeccompFilters filters_;
    std::shared_ptr<base::UniqueFd> run_dir_;
    Staging staging_;  // of a private launch
    std::shared_ptr<Orphans> orphans_;
    bool counts_sockets_;  // whether this host can
    std::shared_ptr<LaunchFailures> failures_;
};

}  // namespace atl::isolation
