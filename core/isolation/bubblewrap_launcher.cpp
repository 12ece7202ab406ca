#include "core/isolation/bubblewrap_launcher.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "core/isolation/bridge_socket.hpp"
#include "core/isolation/running_sandbox.hpp"
#include "core/isolation/socket_counts.hpp"
#include "core/isolation/zygote.hpp"

namespace atl::isolation {
namespace {

namespace fs = std::filesystem;

// devpts (the kernel's filesystems/devpts): `max` bounds one sandbox's share of the host's 4096
// pseudoterminals (kernel.pty.max).
constexpr const char* k_pty_options = "newinstance,ptmxmode=0666,mode=0620,max=256";
constexpr std::uint64_t k_bytes_per_mb = 1024UL * 1024;
constexpr int k_zygote_attempts = 3;
// On a host without memory a sandbox goes before everything of the host's own: each 100 of it counts as a
// tenth of the memory (proc(5), /proc/pid/oom_score_adj).
constexpr int k_oom_score_adj = 800;

class BubblewrapProcess final : public sandbox::Process {
  public:
    BubblewrapProcess(std::shared_ptr<RunningSandbox> running, std::weak_ptr<Orphans> orphans)
        : running_(std::move(running)), orphans_(std::move(orphans)) {}
    ~BubblewrapProcess() override {
        running_->replace_exit_handler(nullptr);
        running_->on_log(nullptr);
        running_->listen(0, nullptr);
        if (const auto orphans = orphans_.lock(); orphans && !running_->has_ended())
            orphans->adopt(running_);
        else
            running_->kill();
    }
    const std::string& bridge_path() const override { return running_->bridge_path(); }
    pid_t pid() const override { return running_->pid(); }
    void terminate() override { running_->terminate(); }
    void kill() override { running_->kill(); }
    std::string log_tail() const override { return running_->log_tail(); }
    std::optional<std::uint32_t> sockets() const override { return running_->sockets(); }
    std::optional<std::uint32_t> netlink_sockets() const override { return running_->netlink_sockets(); }
    std::uint32_t closed_lately() const override { return running_->closed_lately(); }
    base::Result<sandbox::InnerSocket> connect(std::uint16_t port) override {
        return running_->connect(port);
    }
    bool can_connect() const override { return running_->can_connect(); }
    void await_connect(std::function<void()> ready) override { running_->await_connect(std::move(ready)); }
    void listen(std::uint16_t port, std::function<void(base::Result<sandbox::InnerListener>)> done) override {
        running_->listen(port, std::move(done));
    }
    void on_log(std::function<void(std::string_view)> on_text) override {
        running_->on_log(std::move(on_text));
    }

  private:
    std::shared_ptr<RunningSandbox> running_;
    std::weak_ptr<Orphans> orphans_;
};

struct Pipe {
    base::UniqueFd read_end;
    base::UniqueFd write_end;
};

base::Error launch_failed(const char* what) {
    return base::Error(base::Errc::sandbox_failed, base::errno_text(what, errno));
}

// Only the reading end is ours alone: its flags are out of the sandbox's reach.
base::Result<Pipe> make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return launch_failed("pipe");
    Pipe made{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
    if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        return launch_failed("fcntl");
    return made;
}

base::Result<base::UniqueFd> in_memory(const std::string& text) {
    base::UniqueFd memory(::memfd_create("atoll-launch", MFD_CLOEXEC));
    if (!memory || ::pwrite(memory.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
        return launch_failed("memfd_create");
    return memory;
}

// A NUL ends a word: what stands behind one would be read as further options, a mount of the host's folders
// among them. So all that reaches the profile is checked here, whatever was checked before it was stored.
base::Result<base::UniqueFd> words_in_memory(const std::vector<std::string>& arguments) {
    std::string text;
    for (const auto& word : arguments) {
        if (word.find('\0') != std::string::npos)
            return base::Error(base::Errc::sandbox_failed,
                               "a variable or a path of the sandbox holds a NUL byte: its record is damaged");
        text += word;
        text += '\0';
    }
    return in_memory(text);
}

/// The issuers that programs inside trust: those of the host as they are now, and the sandbox's own.
base::Result<base::UniqueFd> bundle_in_memory(const std::string& hosts_bundle, const std::string& issuer) {
    std::string text;
    if (!hosts_bundle.empty()) {
        std::ifstream file(hosts_bundle, std::ios::binary);
        // With the issuer alone, programs would reach no other host.
        if (!file.is_open())
            return launch_failed("reading the host's bundle of certificates");
        text.assign(std::istreambuf_iterator<char>(file), {});
    }
    if (!text.empty() && text.back() != '\n')
        text += '\n';
    return in_memory(text + issuer);
}

/// All paths that a launch uses: the sources of the profile, and bwrap itself.
StagingSources staging_sources(const LauncherConfig& config) {
    StagingSources sources{config.guest, config.etc_dir, config.sources};
    sources.agent_program = config.agent_program;
    auto& reachable = sources.reachable;
    reachable.insert(reachable.end(), {config.bwrap, config.run_dir, "/usr", "/proc", "/dev/null"});
    const HostLayout& layout = config.layout;
    for (const auto* paths : {&layout.folders, &layout.etc_files, &layout.etc_folders})
        reachable.insert(reachable.end(), paths->begin(), paths->end());
    for (const auto& [name, target] : layout.links)
        reachable.emplace_back(name);
    if (!layout.resolv_conf.empty())
        reachable.emplace_back(layout.resolv_conf);
    sources.folders = {"/usr"};
    sources.folders.insert(sources.folders.end(), layout.folders.begin(), layout.folders.end());
    for (const auto* parts : {&layout.etc_folders, &layout.etc_files})
        sources.etc_parts.insert(sources.etc_parts.end(), parts->begin(), parts->end());
    // Among them is the data directory, which holds no agent.
    std::ranges::copy_if(config.sources, std::back_inserter(sources.agents),
                         [&](const fs::path& source) { return source != config.run_dir.parent_path(); });
    return sources;
}

// Removes the files of an earlier run: this server holds the data directory's lock, so none of them is in
// use.
base::Result<base::UniqueFd> prepare_run_dir(const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    fs::create_directories(path, error);
    base::UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder || ::fchmod(folder.get(), 0700) != 0)
        return base::Error(base::Errc::storage_failed, base::errno_text("open " + path.string(), errno));
    return folder;
}

/// The comment in the profile about a source of bwrap's that is made for the launch.
std::string staged_text(const StagedMount& mount) {
    switch (mount.kind) {
        case StagedKind::bind:
        case StagedKind::tree:
            return "# " + mount.target + " is " + mount.source;
        case StagedKind::view:
            return "# " + mount.target + " is an overlay: " + mount.options;
        case StagedKind::ptys:
            break;
    }
    return "# " + mount.target + " is a devpts: " + mount.options;
}

std::string folder_name(const sandbox::LaunchSpec& spec) {
    return spec.sandbox_id + "-" + std::to_string(spec.generation);
}

}  // namespace

/// The descriptors of one launch, all close-on-exec.
struct BubblewrapLauncher::Descriptors {
    base::UniqueFd null;
    base::UniqueFd listener;
    base::UniqueFd arguments;
    base::UniqueFd calls;
    base::UniqueFd argument_rules;
    base::UniqueFd bundle;  // none: the sandbox has no issuer of its own
    Pipe log;
    Pipe status;
};

base::Result<std::unique_ptr<BubblewrapLauncher>> BubblewrapLauncher::create(base::Executor executor,
                                                                             base::Timers& timers,
                                                                             LauncherConfig config) {
    auto filters = SeccompFilters::compile();
    if (!filters)
        return filters.error();
    auto run_dir = prepare_run_dir(config.run_dir);
    if (!run_dir)
        return run_dir.error();
    Staging staging;
    if (config.uid_mode == UidMode::private_uid) {
        auto made = make_staging(staging_sources(config));
        if (!made)
            return made.error();
        staging = std::move(*made);
    }
    return std::unique_ptr<BubblewrapLauncher>(new BubblewrapLauncher(
        executor, timers, std::move(config), std::move(*filters), std::move(*run_dir), std::move(staging)));
}

BubblewrapLauncher::BubblewrapLauncher(base::Executor executor, base::Timers& timers, LauncherConfig config,
                                       SeccompFilters filters, base::UniqueFd run_dir, Staging staging)
    : executor_(executor),
      timers_(timers),
      config_(std::move(config)),
      filters_(std::move(filters)),
      run_dir_(std::make_shared<base::UniqueFd>(std::move(run_dir))),
      staging_(std::move(staging)),
      orphans_(std::make_shared<Orphans>()),
      counts_sockets_(can_count_sockets()),
      failures_(std::make_shared<LaunchFailures>()) {}

BubblewrapLauncher::~BubblewrapLauncher() = default;

void BubblewrapLauncher::let_go() {
    orphans_->let_go();
}

ProfileSources BubblewrapLauncher::sources(const sandbox::LaunchSpec& spec, const std::string& folder) const {
    if (config_.uid_mode == UidMode::private_uid) {
        const std::string& at = staging_.dir;
        const HostViews& views = staging_.views;
        ProfileSources staged{spec.workspace.empty() ? "" : at + "/workspace",
                              spec.agent_dir ? at + "/agent" : "",
                              at + "/guest",
                              at + "/bridge",
                              at + "/etc",
                              at + "/masks"};
        if (views.dev.empty())
            staged.ptys = at + "/ptys";
        if (spec.has_agent_program)
            staged.agent_program = at + "/agent-program";
        if (views.mounts.empty())
            return staged;
        staged.guest = views.guest;
        // The view is of the whole folder of the guest.
        if (spec.has_agent_program)
            staged.agent_program =
                fs::path(views.guest).replace_filename(config_.agent_program.filename()).string();
        staged.etc = views.etc;
        staged.masks = views.masks;
        staged.host_root = views.root;
        staged.dev = views.dev;
        return staged;
    }
    ProfileSources own{spec.workspace,  spec.agent_dir ? spec.agent_dir->string() : "",
                       config_.guest,   config_.run_dir / folder,
                       config_.etc_dir, config_.masks_dir};
    if (spec.has_agent_program)
        own.agent_program = config_.agent_program;
    return own;
}

std::vector<std::string> BubblewrapLauncher::arguments_of(const sandbox::LaunchSpec& spec,
                                                          const std::string& folder) const {
    auto made = profile_arguments(config_.layout, spec, sources(spec, folder));
    if (config_.process_limit == ProcessLimit::rlimit)
        made.insert(made.end(),
                    {"--setenv", base::k_max_processes_variable, std::to_string(spec.limits.max_processes)});
    return made;
}

ChildPlan BubblewrapLauncher::plan(const sandbox::LaunchSpec& spec, sandbox::ResourceGroup* group,
                                   const std::string& folder, const Descriptors& fds) const {
    ChildPlan plan;
    plan.fds = {fds.null.get(),           fds.log.write_end.get(),   fds.log.write_end.get(),
                fds.listener.get(),       fds.arguments.get(),       fds.calls.get(),
                fds.argument_rules.get(), fds.status.write_end.get()};
    if (fds.bundle)
        plan.fds.push_back(fds.bundle.get());
    if (group)
        plan.group_fd = group->clone_into_fd();
    plan.max_file_bytes = spec.limits.disk_mb * k_bytes_per_mb;
    plan.max_open_files = spec.limits.max_open_files;
    plan.oom_score_adj = k_oom_score_adj;
    if (config_.uid_mode == UidMode::shared)
        return plan;
    const ProfileSources staged = sources(spec, folder);
    plan.uid = spec.host_uid;
    plan.mount_namespace = staging_.mount_namespace.get();
    plan.staged = staging_.views.mounts;
    const std::string ptys = staged.dev.empty() ? staged.ptys : staged.dev + "/pts";
    plan.staged.push_back({StagedKind::ptys, "", ptys, k_pty_options});
    if (!spec.workspace.empty())
        plan.staged.push_back({StagedKind::bind, spec.workspace, staged.workspace, ""});
    plan.staged.push_back({StagedKind::bind, config_.run_dir / folder, staged.bridge_dir, ""});
    if (!spec.agent_dir)
        return plan;
    const bool is_viewed =
        !staging_.views.mounts.empty() && !staging_.views.refused.contains(*spec.agent_dir);
    plan.staged.push_back(is_viewed ? view_of(*spec.agent_dir, staged.agent_dir, staging_.views.empty)
                                    : StagedMount{StagedKind::bind, *spec.agent_dir, staged.agent_dir, ""});
    return plan;
}

base::Result<BubblewrapLauncher::Descriptors> BubblewrapLauncher::open_descriptors(
    const sandbox::LaunchSpec& spec, const std::string& folder) const {
    auto log = make_pipe();
    if (!log)
        return log.error();
    auto status = make_pipe();
    if (!status)
        return status.error();
    auto arguments = words_in_memory(arguments_of(spec, folder));
    if (!arguments)
        return arguments.error();
    Descriptors fds;
    fds.log = std::move(*log);
    fds.status = std::move(*status);
    fds.arguments = std::move(*arguments);
    fds.null.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    fds.calls = filters_.open_calls();
    fds.argument_rules = filters_.open_arguments();
    if (!fds.null || !fds.calls || !fds.argument_rules)
        return launch_failed("opening what bubblewrap reads");
    if (spec.issuer.empty())
        return fds;
    auto bundle = bundle_in_memory(config_.layout.bundle, spec.issuer);
    if (!bundle)
        return bundle.error();
    fds.bundle = std::move(*bundle);
    return fds;
}

// A waiting zygote may have died meanwhile: then the next zygote is used, which may still have to join.
base::Result<Spawned> BubblewrapLauncher::start_in(sandbox::ResourceGroup* group,
                                                   const ChildPlan& plan) const {
    base::Error gone(base::Errc::sandbox_failed, "");
    for (int attempt = 0; group != nullptr && attempt < k_zygote_attempts; ++attempt) {
        const auto prepared = group->take_prepared_process();
        if (!prepared)
            return prepared.error();
        Zygote* const zygote = Zygote::from(prepared->get());
        if (zygote == nullptr)
            break;
        auto spawned = zygote->become(config_.bwrap, command_line(), plan);
        if (spawned)
            return spawned;
        gone = spawned.error();
    }
    if (!gone.detail().empty())
        return gone;
    return spawn(config_.bwrap, command_line(), plan);
}

base::Result<std::unique_ptr<sandbox::Process>> BubblewrapLauncher::launch(
    const sandbox::LaunchSpec& spec, sandbox::ResourceGroup* group,
    std::function<void(sandbox::Exit)> on_exit) {
    if (spec.network == sandbox::NetworkMode::host && config_.host_network == HostNetwork::refused)
        return base::Error(base::Errc::network_not_allowed, "this server does not allow the host's network");
    // Below them are the host's own users, and the node's store may be a copied file.
    const bool has_own_uid = spec.host_uid >= base::k_first_host_uid;
    const bool fits = config_.uid_mode == UidMode::private_uid ? has_own_uid : spec.host_uid == 0;
    if (!fits)
        return base::Error(base::Errc::internal, "the sandbox's uid does not fit the server's uid mode");
    const std::string folder = folder_name(spec);
    auto fds = open_descriptors(spec, folder);
    if (!fds)
        return fds.error();
    auto socket = BridgeSocket::listen(run_dir_, folder, fds->listener);
    if (!socket)
        return socket.error();
    auto spawned = start_in(group, plan(spec, group, folder, *fds));
    if (!spawned)
        return spawned.error();
    Started started{std::move(*spawned),
                    std::move(*socket),
                    std::move(fds->log.read_end),
                    std::move(fds->status.read_end),
                    spec.network,
                    failures_,
                    config_.zygote};
    auto running =
        std::make_shared<RunningSandbox>(executor_, timers_, std::move(started), std::move(on_exit));
    running->watch();
    return std::unique_ptr<sandbox::Process>(
        std::make_unique<BubblewrapProcess>(std::move(running), orphans_));
}

void BubblewrapLauncher::describe(sandbox::Enforcement& enforcement, sandbox::NetworkMode network) const {
    enforcement.filesystem = "bubblewrap";
    const bool has_egress = network == sandbox::NetworkMode::egress && !failures_->no_listeners;
    enforcement.network = !sandbox::has_own_net(network) ? "host" : has_egress ? "egress" : "netns";
    enforcement.syscalls = "seccomp";
    enforcement.tmp = "tmpfs";
    if (sandbox::has_own_net(network) && counts_sockets_)
        enforcement.sockets = "count";
    if (config_.process_limit == ProcessLimit::rlimit)
        enforcement.processes = "rlimit";
    enforcement.uid = config_.uid_mode == UidMode::private_uid ? "private" : "shared";
}

std::map<std::string, std::string> BubblewrapLauncher::shared_host_files() const {
    if (config_.uid_mode == UidMode::shared)
        return {{"/usr", "only a server that is root, or that has subordinate uids, makes views of it"}};
    return staging_.views.refused;
}

std::string BubblewrapLauncher::profile(const sandbox::LaunchSpec& spec) const {
    std::string text;
    if (config_.uid_mode == UidMode::private_uid) {
        for (const auto& mount : plan(spec, nullptr, folder_name(spec), {}).staged)
            text += staged_text(mount) + '\n';
    }
    return text + profile_text(arguments_of(spec, folder_name(spec)));
}

}  // namespace atl::isolation
