#include "app/application.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "app/data_dir.hpp"
#include "app/database_watch.hpp"
#include "app/descriptors.hpp"
#include "app/host.hpp"
#include "app/host_gaps.hpp"
#include "app/host_memory.hpp"
#include "app/memory_trim.hpp"
#include "app/metrics.hpp"
#include "app/part_settings.hpp"
#include "app/required_limits.hpp"
#include "app/tls_certificate.hpp"
#include "app/usage.hpp"
#include "bridge/unix_channel.hpp"
#include "cgroup/groups.hpp"
#include "core/base/asio_timers.hpp"
#include "core/base/ending_limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/loop_meter.hpp"
#include "core/base/own_priority.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/isolation/bubblewrap_launcher.hpp"
#include "core/isolation/epoll_guard.hpp"
#include "core/isolation/host_probe.hpp"
#include "core/isolation/private_mounts.hpp"
#include "core/isolation/uid_leases.hpp"
#include "core/isolation/user_namespace.hpp"
#include "core/sandbox/env_policy.hpp"
#include "core/sandbox/manager.hpp"
#include "core/sandbox/start_sweep.hpp"
#include "core/store/checkpointer.hpp"
#include "core/store/metered_store.hpp"
#include "core/store/sqlite_store.hpp"
#include "fs-guard/disk_meter.hpp"
#include "fs-guard/free_space.hpp"
#include "fs-guard/helper_client.hpp"
#include "fs-guard/inspector.hpp"
#include "fs-guard/workspace_root.hpp"
#include "fs-guard/workspaces.hpp"
#include "http/access/key_file.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/api/api.hpp"
#include "http/api/shared_deflate.hpp"
#include "http/server/gate.hpp"
#include "http/server/server.hpp"

namespace atl::app {

using base::Errc;
using base::Error;
using base::LogLine;
using base::Millis;
using base::Result;
namespace evt = base::evt;

namespace {

constexpr Millis k_http_grace{3'000};

/// Raises the soft limit of descriptors to the hard limit (getrlimit(2)), since many sandboxes need many;
/// returns the limit.
std::size_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    const rlim_t soft = std::exchange(limit.rlim_cur, limit.rlim_max);
    return soft < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &limit) != 0 ? soft : limit.rlim_max;
}

/// Lowers --max-sandboxes to the number that the descriptors of the process suffice for, and logs that.
Result<DescriptorShares> bound_sandboxes(Config& config, std::size_t descriptors) {
    const auto shares = share_descriptors(descriptors, {base::k_max_connections, config.max_sandboxes});
    if (shares.sandboxes == 0)
        return Error(Errc::host_unsupported, "the process may have " + std::to_string(descriptors) +
                                                 " descriptors, too few for one sandbox; raise the limit "
                                                 "(ulimit -n, LimitNOFILE= of systemd)");
    if (shares.sandboxes < config.max_sandboxes)
        LogLine(evt::sandboxes_bounded)
            .field("asked", static_cast<std::int64_t>(config.max_sandboxes))
            .field("max", static_cast<std::int64_t>(shares.sandboxes))
            .field("descriptors", static_cast<std::int64_t>(descriptors))
            .warn();
    config.max_sandboxes = shares.sandboxes;
    return shares;
}

}  // namespace

// Members are in the order of their construction; they are destroyed in the opposite order.
struct Application::Parts {
    Parts(boost::asio::io_context& with, const Config& configured, std::size_t connections, DataDir&& dir)
        : loop(with),
          config(configured),
          max_connections(connections),
          data(std::move(dir)),
          timers(with.get_executor()),
          meter(with, configured.measure_loop ? base::LoopMeter::Detail::handlers
                                              : base::LoopMeter::Detail::stalls),
          signals(with, SIGTERM, SIGINT) {}

    Result<void> open();
    Result<void> open_host();
    Result<void> open_core();
    Result<void> open_database();
    Result<void> open_disk(const conversation::Snapshot& snapshot);
    void open_meter();
    void guard_epoll();
    void open_inspector();
    std::uint64_t database_bytes() const;
    Gaps gaps() const;
    Result<void> open_http();
    void await_signal();
    void stop();
    void let_go();

    boost::asio::io_context& loop;
    Config config;
    std::size_t max_connections;
    DataDir data;
    base::SystemClock clock;
    base::AsioTimers timers;
    base::LoopMeter meter;
    boost::asio::basic_signal_set<base::Executor> signals;
    std::vector<sandbox::AgentSpec> agents;
    std::unique_ptr<store::SqliteStore> store;
    std::optional<store::MeteredStore> metered_store;
    std::unique_ptr<fs_guard::HelperClient> remover;
    std::unique_ptr<fs_guard::HelperClient> checkpoint_helper;
    std::unique_ptr<fs_guard::HelperClient> measurer;
    std::unique_ptr<fs_guard::HelperClient> inspect_helper;
    std::unique_ptr<fs_guard::DiskMeter> disk_meter;
    std::filesystem::path disk_root;  // of workspaces and trash
    std::unique_ptr<fs_guard::Workspaces> workspaces;
    std::unique_ptr<cgroup::Groups> groups;
    std::unique_ptr<sandbox::UidLeases> uids;
    std::unique_ptr<isolation::BubblewrapLauncher> launcher;
    std::unique_ptr<bridge::UnixChannels> channels;
    std::unique_ptr<sandbox::Manager> sandboxes;
    std::optional<isolation::EpollGuard> epoll_guard;  // where sandboxes share the server's uid
    std::unique_ptr<fs_guard::Inspector> inspector;
    std::unique_ptr<conversation::Journal> journal;
    std::unique_ptr<conversation::Manager> conversations;
    std::optional<store::Checkpointer> checkpointer;
    std::optional<DatabaseWatch> database_watch;
    std::optional<MemoryTrim> memory_trim;
    std::size_t orphans = 0;  // workspaces that no record named at the start
    std::unique_ptr<http::KeyFile> keys;
    std::unique_ptr<http::StreamTokens> tokens;
    std::unique_ptr<http::KeyAuthenticator> authenticator;
    std::unique_ptr<http::SharedDeflate> deflate;
    http::Metrics metrics;
    std::unique_ptr<http::Api> api;
    std::unique_ptr<http::Gate> gate;
    std::unique_ptr<http::Server> server;
    std::unique_ptr<TlsCertificate> certificate;  // none: no TLS
    std::vector<std::string> addresses;
    std::string key;
    bool key_from_environment = false;
    bool stopping = false;
};

Result<void> Application::Parts::open() {
    if (const char* given = std::getenv("ATOLL_API_KEY"); given != nullptr && *given != '\0') {
        key = given;
        key_from_environment = true;
        if (key.size() < 16)
            return Error(Errc::invalid_field,
                         "ATOLL_API_KEY is shorter than 16 characters; choose a longer one");
    } else {
        auto kept = data.api_key();
        if (!kept)
            return kept.error();
        key = std::move(*kept);
    }
    auto read = configured_agents(config);
    if (!read)
        return read.error();
    agents = std::move(*read);
    if (auto ok = open_database(); !ok)
        return ok;
    if (auto ok = open_host(); !ok)
        return ok;
    if (auto ok = open_core(); !ok)
        return ok;
    return open_http();
}

Result<void> Application::Parts::open_database() {
    auto root = fs_guard::workspace_root(data.path());
    if (!root)
        return root.error();
    disk_root = std::move(*root);
    if (!config.adopt_orphans) {
        if (auto there = check_database_is_there(data, disk_root); !there)
            return there;
    }
    auto opened = store::SqliteStore::open(data.database());
    if (!opened)
        return opened.error();
    store = std::move(*opened);
    metered_store.emplace(*store);
    return {};
}

Result<void> Application::Parts::open_host() {
    auto launcher_config = make_launcher_config(config, data, agents);
    if (!launcher_config)
        return launcher_config.error();
    if (auto probed = isolation::probe_host(*launcher_config); !probed)
        return probed;
    if (const std::string risk = isolation::core_dump_risk(); !risk.empty())
        LogLine(evt::core_dumps_handled).quoted("err", risk).warn();
    if (launcher_config->uid_mode == isolation::UidMode::private_uid) {
        if (auto kept = isolation::keep_in_memory(launcher_config->run_dir); !kept)
            return kept;
    }
    auto found_groups =
        cgroup::Groups::open(loop.get_executor(), timers, {data.instance_id(), config.zygote});
    if (!found_groups)
        return found_groups.error();
    groups = std::move(*found_groups);
    if (groups->places().missing.contains(cgroup::Controller::pids) &&
        isolation::counts_processes_by_namespace(isolation::running_kernel()))
        launcher_config->process_limit = isolation::ProcessLimit::rlimit;
    auto made = isolation::BubblewrapLauncher::create(loop.get_executor(), timers, *launcher_config);
    if (!made)
        return made.error();
    launcher = std::move(*made);
    if (launcher_config->uid_mode == isolation::UidMode::shared) {
        uids = std::make_unique<isolation::SharedUid>();
        return {};
    }
    isolation::UidLeaseConfig leases;
    leases.lease_dir = config.uid_lease_dir;
    leases.data_dir = data.path();
    leases.instance_id = data.instance_id();
    leases.blocks = isolation::mapped_host_uids() / leases.uids_per_block;
    if (leases.blocks == 0)
        return Error(Errc::host_unsupported,
                     "root of this user namespace has no uids to give to sandboxes: map " +
                         std::to_string(base::k_host_uids_per_block) + " or more from " +
                         std::to_string(base::k_first_host_uid) +
                         " on, or run the server as another user than root");
    auto leased = isolation::HostUidLeases::open(std::move(leases));
    if (!leased)
        return leased.error();
    uids = std::move(*leased);
    return {};
}

Result<void> Application::Parts::open_core() {
    auto snapshot = store->load();
    if (!snapshot)
        return snapshot.error();
    if (auto ok = open_disk(*snapshot); !ok)
        return ok;
    channels = std::make_unique<bridge::UnixChannels>(loop.get_executor(), timers);
    sandbox::ManagerSettings sandbox_settings;
    sandbox_settings.max_sandboxes = config.max_sandboxes;
    sandbox_settings.max_memory_mb = config.max_memory_mb;
    sandbox_settings.memory_reserve = config.memory_reserve_percent / 100.0;
    sandbox_settings.default_limits = config.default_limits;
    sandbox_settings.host_env = sandbox::pick_host_env(environ);
    sandboxes = std::make_unique<sandbox::Manager>(
        sandbox::ManagerPorts{clock, timers, *launcher, *groups, *workspaces, *channels, *uids,
                              [] { return read_host_memory("/proc/meminfo"); }},
        sandbox_settings);
    open_inspector();
    if (auto enough = check_required(config.required, gaps()); !enough)
        return enough;
    sandboxes->hold(groups->take_leftovers());
    if (::geteuid() != 0)
        guard_epoll();
    journal = std::make_unique<conversation::Journal>(*metered_store, timers);
    conversations = std::make_unique<conversation::Manager>(
        clock, timers, *sandboxes, *journal, *metered_store, conversation_settings(config, agents));
    return conversations->restore(std::move(*snapshot));
}

Result<void> Application::Parts::open_disk(const conversation::Snapshot& snapshot) {
    const fs_guard::HelperConfig helper{config.helper, disk_root};
    auto removing = fs_guard::HelperClient::start(loop.get_executor(), timers, helper);
    if (!removing)
        return removing.error();
    remover = std::move(*removing);
    // A second helper: a long removal must not hold up a checkpoint.
    fs_guard::HelperConfig prompt{config.helper, data.path()};
    prompt.priority = isolation::Priority::low;  // commits cost more until a checkpoint is done
    auto checking = fs_guard::HelperClient::start(loop.get_executor(), timers, prompt);
    if (!checking)
        return checking.error();
    checkpoint_helper = std::move(*checking);
    // A third: neither may hold up a look at a workspace that grows.
    auto measuring = fs_guard::HelperClient::start(loop.get_executor(), timers, helper);
    if (!measuring)
        return measuring.error();
    measurer = std::move(*measuring);
    // A fourth, not as low: a sandbox stands still until it is done.
    fs_guard::HelperConfig looking = helper;
    looking.priority = isolation::Priority::low;
    auto inspecting = fs_guard::HelperClient::start(loop.get_executor(), timers, looking);
    if (!inspecting)
        return inspecting.error();
    inspect_helper = std::move(*inspecting);
    open_meter();
    auto provisioned = fs_guard::Workspaces::open(disk_root, *remover, *disk_meter, timers);
    if (!provisioned)
        return provisioned.error();
    workspaces = std::move(*provisioned);
    orphans = sandbox::sweep_at_start(snapshot.sandboxes, *groups, *workspaces, *uids);
    return {};
}

Gaps Application::Parts::gaps() const {
    return host_gaps(sandboxes->enforcement(sandbox::NetworkMode::none), groups->places(),
                     launcher->shared_host_files());
}

void Application::Parts::guard_epoll() {
    isolation::EpollGuardPorts ports;
    ports.processes = [this] { return sandboxes->processes(); };
    ports.kill = [this](const std::string& id, sandbox::Exit exit) { sandboxes->kill(id, std::move(exit)); };
    epoll_guard.emplace(loop.get_executor(), timers, config.zygote, std::move(ports));
}

void Application::Parts::open_meter() {
    fs_guard::MeterSettings meter_settings;
    meter_settings.period = std::chrono::seconds(config.disk_period_seconds);
    meter_settings.reserve = config.disk_reserve_percent / 100.0;
    auto walk = [this](const std::string& id, std::function<void(Result<fs_guard::TreeSize>)> done) {
        if (auto counted = workspaces->counted(id))
            return timers.defer([done = std::move(done), size = *counted] { done(size); });
        measurer->measure(fs_guard::Workspaces::folder_name(id), std::move(done));
    };
    auto look = [this] {
        auto space = fs_guard::free_space(disk_root);
        // The database is elsewhere where the workspaces have a file system of their own.
        if (space && disk_root == data.path())
            space->own_bytes = database_bytes();
        return space;
    };
    // None is asked for before a sandbox lives.
    auto inspect = [this](const std::string& id, fs_guard::Inspector::Done done) {
        inspector->inspect(id, std::move(done));
    };
    disk_meter = std::make_unique<fs_guard::DiskMeter>(
        fs_guard::MeterPorts{clock, timers, std::move(look), std::move(walk), std::move(inspect)},
        meter_settings);
}

/// Of the file system that the workspaces are on.
std::uint64_t Application::Parts::database_bytes() const {
    constexpr std::uint64_t k_block_bytes = 512;  // of st_blocks (stat(2))
    std::uint64_t bytes = 0;
    for (const char* part : {"", "-wal", "-shm"}) {
        struct stat status {};
        if (::stat((data.database().string() + part).c_str(), &status) == 0)
            bytes += static_cast<std::uint64_t>(status.st_blocks) * k_block_bytes;
    }
    return bytes;
}

void Application::Parts::open_inspector() {
    auto hold = [this](const std::string& id, std::function<void(Result<void>)> done) {
        sandboxes->hold_still(id, std::move(done));
    };
    auto let_go = [this](const std::string& id) { return sandboxes->let_go(id); };
    auto look = [this](const std::string& id, fs_guard::Inspector::Done done) {
        const auto first = sandboxes->process(id);
        if (!first) {
            const Error gone(Errc::sandbox_gone, "its processes are gone");
            return timers.defer([done = std::move(done), gone] { done(gone); });
        }
        inspect_helper->inspect(fs_guard::Workspaces::folder_name(id), {*first, sandboxes->members(id)},
                                std::move(done));
    };
    inspector = std::make_unique<fs_guard::Inspector>(
        fs_guard::InspectorPorts{timers, std::move(hold), std::move(let_go), std::move(look)});
}

Result<void> Application::Parts::open_http() {
    keys = std::make_unique<http::KeyFile>(DataDir::keys_file(data.path()));
    if (auto read = keys->refresh(); !read)
        return read;
    auto token_key = data.token_key();
    if (!token_key)
        return token_key.error();
    tokens = std::make_unique<http::StreamTokens>(std::move(*token_key), clock);
    authenticator = std::make_unique<http::KeyAuthenticator>(key, keys.get(), tokens.get());
    http::SystemInfo system;
    system.version = ATOLL_VERSION;
    system.default_agent = config.default_agent;
    system.networks = {"none"};
    if (config.allow_host_network)
        system.networks.emplace_back("host");
    system.gaps = gaps();
    system.enforcement = [this] { return sandboxes->enforcement(sandbox::NetworkMode::none); };
    system.limits = config.limits;
    system.ceilings = config.ceilings;
    system.capacity = [this] {
        return http::Capacity{sandboxes->living(), sandboxes->capacity(), sandboxes->committed_memory_mb(),
                              sandboxes->memory_capacity_mb()};
    };
    system.undying = [this] { return sandboxes->undying(base::k_max_undying_told); };
    if (config.warm_limit_seconds > 0)
        system.warm_pause = sandboxes->freezer();
    system.ready = [this] { return conversations->ready(); };
    system.orphans = orphans;
    if (config.websocket_compression == "on")
        deflate = std::make_unique<http::SharedDeflate>();
    if (config.measure_loop)
        system.loop = &meter;
    api = std::make_unique<http::Api>(
        http::Api{*conversations, std::move(system), tokens.get(), deflate.get(), &metrics, {}});
    gate = std::make_unique<http::Gate>(gate_settings(config), http::make_router(*api), *authenticator);
    server = std::make_unique<http::Server>(loop.get_executor(), clock, timers,
                                            http_settings(config, max_connections));
    const std::map<std::string, const fs_guard::HelperClient*> helpers{
        {"measure", measurer.get()},
        {"inspect", inspect_helper.get()},
        {"remove", remover.get()},
        {"checkpoint", checkpoint_helper.get()}};
    add_metrics(metrics, {*sandboxes, launcher->failures(), *conversations, *journal, *metered_store, *api,
                          *server, meter, helpers, disk_root});
    if (!config.tls_cert.empty()) {
        auto loaded = TlsCertificate::open(
            loop.get_executor(), {config.tls_cert, config.tls_key},
            [this](std::shared_ptr<const http::TlsContext> tls) { server->use_tls(std::move(tls)); });
        if (!loaded)
            return loaded.error();
        certificate = std::move(*loaded);
    }
    for (const auto& address : config.listen) {
        auto bound = server->listen(address, *gate);
        if (!bound)
            return bound.error();
        addresses.push_back(std::move(*bound));
    }
    return {};
}

void Application::Parts::await_signal() {
    signals.async_wait([this](const boost::system::error_code& error, int signal_number) {
        if (error)
            return;
        if (stopping) {
            // Asked twice: at once. Every sandbox dies with this process.
            LogLine(evt::server_stopped).field("err", "forced").warn();
            ::_exit(130);
        }
        LogLine(evt::server_stopping).field("signal", signal_number).info();
        stop();
        await_signal();
    });
}

void Application::Parts::stop() {
    stopping = true;
    // Turns end and sandboxes go down while clients still listen; then the streams have said all there is.
    conversations->shut_down([this] { server->stop(k_http_grace, [this] { let_go(); }); });
}

void Application::Parts::let_go() {
    epoll_guard.reset();
    launcher->let_go();
    workspaces.reset();
    disk_meter.reset();
    inspector.reset();
    measurer.reset();
    inspect_helper.reset();
    remover.reset();
    database_watch.reset();
    memory_trim.reset();
    checkpointer.reset();
    checkpoint_helper.reset();
    timers.stop();
    meter.stop();
    signals.cancel();
    if (certificate)
        certificate->stop();
    LogLine(evt::server_stopped).info();
}

Application::Application(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Application::~Application() = default;

Result<std::unique_ptr<Application>> Application::open(boost::asio::io_context& loop, const Config& config) {
    Config bounded = config;
    const auto shares = bound_sandboxes(bounded, raise_descriptor_limit());
    if (!shares)
        return shares.error();
    if (config.nice >= 0) {
        base::set_own_slice(base::Slice::whole_turn_ns);
    } else if (!base::set_own_priority(config.nice, base::Slice::whole_turn_ns)) {
        LogLine(evt::priority_refused).field("nice", config.nice).debug();
    }
    auto data = DataDir::open(config.data_dir);
    if (!data)
        return data.error();
    auto parts = std::make_unique<Parts>(loop, bounded, shares->connections, std::move(*data));
    if (auto opened = parts->open(); !opened)
        return opened.error();
    return std::unique_ptr<Application>(new Application(std::move(parts)));
}

void Application::start() {
    parts_->groups->make_ahead();
    parts_->server->start();
    parts_->conversations->open_pool();
    parts_->sandboxes->watch_host_memory();
    parts_->checkpointer.emplace(parts_->timers, *parts_->checkpoint_helper, *parts_->store, *parts_->journal,
                                 parts_->data.database(), store::Checkpointer::Bounds{});
    parts_->database_watch.emplace(parts_->timers, *parts_->store, parts_->data.backup_lock());
    parts_->memory_trim.emplace(parts_->timers);
    parts_->await_signal();
}

void Application::run() {
    parts_->meter.run();
}

std::string Application::usage() const {
    UsageFacts facts{parts_->addresses, parts_->data.path(), parts_->data.api_key_file(), {}};
    if (!parts_->key_from_environment)
        facts.generated_key = parts_->key;
    facts.scheme = parts_->certificate ? Scheme::https : Scheme::http;
    return usage_text(facts);
}

}  // namespace atl::app
