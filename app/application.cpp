#include "app/application.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "app/agents_file.hpp"
#include "app/data_dir.hpp"
#include "app/host.hpp"
#include "app/host_memory.hpp"
#include "app/metrics.hpp"
#include "app/required_limits.hpp"
#include "app/tls_certificate.hpp"
#include "app/usage.hpp"
#include "bridge/unix_channel.hpp"
#include "cgroup/groups.hpp"
#include "core/base/asio_timers.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/loop_lag.hpp"
#include "core/base/loop_meter.hpp"
#include "core/base/own_priority.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/isolation/bubblewrap_launcher.hpp"
#include "core/isolation/host_probe.hpp"
#include "core/isolation/private_mounts.hpp"
#include "core/isolation/uid_leases.hpp"
#include "core/sandbox/env_policy.hpp"
#include "core/sandbox/manager.hpp"
#include "core/store/metered_store.hpp"
#include "core/store/sqlite_store.hpp"
#include "fs-guard/checkpointer.hpp"
#include "fs-guard/disk_meter.hpp"
#include "fs-guard/free_space.hpp"
#include "fs-guard/helper_client.hpp"
#include "fs-guard/workspaces.hpp"
#include "http/api.hpp"
#include "http/key_file.hpp"
#include "http/server.hpp"
#include "http/shared_deflate.hpp"
#include "http/stream_tokens.hpp"

namespace atl::app {

using base::Errc;
using base::Error;
using base::LogLine;
using base::Millis;
using base::Result;
namespace evt = base::evt;

namespace {

constexpr Millis k_http_grace{3'000};

/// Many sandboxes need many descriptors: takes what the hard limit gives (getrlimit(2)).
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

Result<std::vector<sandbox::AgentSpec>> configured_agents(const Config& config) {
    auto file = config.agents_file;
    if (file.empty()) {
        std::error_code ignored;
        if (std::filesystem::exists(config.data_dir / "agents.json", ignored))
            file = config.data_dir / "agents.json";
    }
    auto agents =
        file.empty() ? Result<std::vector<sandbox::AgentSpec>>(built_in_agents()) : read_agents(file);
    if (!agents)
        return agents.error();
    const auto is_configured = [&](const std::string& name) {
        return std::any_of(agents->begin(), agents->end(),
                           [&](const auto& agent) { return agent.name == name; });
    };
    if (!is_configured(config.default_agent))
        return Error(Errc::unknown_agent,
                     "--default-agent names " + config.default_agent + ", which is not configured");
    for (const auto& pool : config.pool) {
        if (!is_configured(pool.agent))
            return Error(Errc::unknown_agent, "--pool names " + pool.agent + ", which is not configured");
    }
    return agents;
}

http::Settings http_settings(const Config& config) {
    http::Settings settings;
    settings.allowed_hosts = config.allowed_hosts;
    settings.allowed_origins = config.allowed_origins;
    settings.trusted_proxies = config.trusted_proxies;
    settings.limits = config.limits;
    settings.unix_socket_group = config.unix_socket_group;
    settings.heartbeat_interval = std::chrono::seconds(config.heartbeat_seconds);
    // Connections of strangers leave three of eight descriptors to the sandboxes.
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
        settings.max_connections = std::min<std::size_t>(settings.max_connections, limit.rlim_cur / 8 * 5);
    settings.access_log = config.access_log == "all" ? http::AccessLog::all : http::AccessLog::failures;
    return settings;
}

conversation::ManagerSettings conversation_settings(const Config& config,
                                                    std::vector<sandbox::AgentSpec> agents) {
    conversation::ManagerSettings settings;
    settings.agents = std::move(agents);
    settings.default_agent = config.default_agent;
    settings.allow_host_network = config.allow_host_network;
    settings.log_bounds = {config.turn_log_bytes, config.conversation_log_bytes};
    settings.turn_limit = std::chrono::seconds(config.turn_limit_seconds);
    settings.pool = config.pool;
    settings.evict_idle = std::chrono::seconds(config.evict_idle_seconds);
    settings.warm_limit = std::chrono::seconds(config.warm_limit_seconds);
    return settings;
}

}  // namespace

// In the order in which they are made; they go in the opposite one.
struct Application::Parts {
    Parts(boost::asio::io_context& with, const Config& configured, DataDir&& dir)
        : loop(with),
          config(configured),
          data(std::move(dir)),
          timers(with.get_executor()),
          lag(with.get_executor()),
          signals(with, SIGTERM, SIGINT) {}

    Result<void> open();
    Result<void> open_host();
    Result<void> open_core();
    Result<void> open_disk();
    void open_meter();
    Gaps gaps() const;
    Result<void> open_http();
    void await_signal();
    void stop();
    void let_go();

    boost::asio::io_context& loop;
    Config config;
    DataDir data;
    base::SystemClock clock;
    base::AsioTimers timers;
    base::LoopLag lag;
    std::optional<base::LoopMeter> meter;
    boost::asio::basic_signal_set<base::Executor> signals;
    std::vector<sandbox::AgentSpec> agents;
    std::unique_ptr<store::SqliteStore> store;
    std::optional<store::MeteredStore> metered_store;
    std::unique_ptr<fs_guard::HelperClient> remover;
    std::unique_ptr<fs_guard::HelperClient> checkpoint_helper;
    std::unique_ptr<fs_guard::HelperClient> measurer;
    std::unique_ptr<fs_guard::DiskMeter> disk_meter;
    std::unique_ptr<fs_guard::Workspaces> workspaces;
    std::unique_ptr<cgroup::Groups> groups;
    std::unique_ptr<sandbox::UidLeases> uids;
    std::unique_ptr<isolation::BubblewrapLauncher> launcher;
    std::unique_ptr<bridge::UnixChannels> channels;
    std::unique_ptr<sandbox::Manager> sandboxes;
    std::unique_ptr<conversation::Journal> journal;
    std::unique_ptr<conversation::Manager> conversations;
    std::optional<fs_guard::Checkpointer> checkpointer;
    std::unique_ptr<http::KeyFile> keys;
    std::unique_ptr<http::StreamTokens> tokens;
    std::unique_ptr<http::KeyAuthenticator> authenticator;
    std::unique_ptr<http::SharedDeflate> deflate;
    http::Metrics metrics;
    std::unique_ptr<http::Api> api;
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
    auto opened = store::SqliteStore::open(data.database());
    if (!opened)
        return opened.error();
    store = std::move(*opened);
    metered_store.emplace(*store);
    if (auto ok = open_host(); !ok)
        return ok;
    if (auto ok = open_core(); !ok)
        return ok;
    return open_http();
}

Result<void> Application::Parts::open_host() {
    auto launcher_config = make_launcher_config(config, data, agents);
    if (!launcher_config)
        return launcher_config.error();
    if (auto probed = isolation::probe_host(*launcher_config); !probed)
        return probed;
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
    auto leased = isolation::HostUidLeases::open(std::move(leases));
    if (!leased)
        return leased.error();
    uids = std::move(*leased);
    return {};
}

Result<void> Application::Parts::open_core() {
    if (auto ok = open_disk(); !ok)
        return ok;
    channels = std::make_unique<bridge::UnixChannels>(loop.get_executor(), timers);
    sandbox::ManagerSettings sandbox_settings;
    sandbox_settings.max_sandboxes = config.max_sandboxes;
    sandbox_settings.max_memory_mb = config.max_memory_mb;
    sandbox_settings.memory_reserve = config.memory_reserve_percent / 100.0;
    sandbox_settings.host_env = sandbox::pick_host_env(environ);
    sandboxes = std::make_unique<sandbox::Manager>(
        sandbox::ManagerPorts{clock, timers, *launcher, *groups, *workspaces, *channels, *uids,
                              [] { return read_host_memory("/proc/meminfo"); }},
        sandbox_settings);
    if (auto enough = check_required(config.required, gaps()); !enough)
        return enough;
    journal = std::make_unique<conversation::Journal>(*metered_store, timers);
    conversations = std::make_unique<conversation::Manager>(
        clock, timers, *sandboxes, *journal, *metered_store, conversation_settings(config, agents));
    return conversations->restore();
}

Result<void> Application::Parts::open_disk() {
    const fs_guard::HelperConfig helper{config.helper, data.path()};
    auto removing = fs_guard::HelperClient::start(loop.get_executor(), timers, helper);
    if (!removing)
        return removing.error();
    remover = std::move(*removing);
    // A second one: a long removal must not hold up a checkpoint.
    fs_guard::HelperConfig prompt = helper;
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
    open_meter();
    auto provisioned = fs_guard::Workspaces::open(data.path(), *remover, *disk_meter, timers);
    if (!provisioned)
        return provisioned.error();
    workspaces = std::move(*provisioned);
    // What the store does not know of was half-made when the last server ended.
    const auto snapshot = store->load();
    if (!snapshot)
        return snapshot.error();
    std::vector<std::string> known;
    for (const auto& box : snapshot->sandboxes) {
        if (!box.gone)
            known.push_back(box.id);
    }
    auto* const private_uids = dynamic_cast<isolation::HostUidLeases*>(uids.get());
    const auto owners = workspaces->sweep(known, [private_uids](const Result<void>& swept) {
        if (!swept)
            LogLine(evt::sandbox_cleanup).quoted("err", swept.error().detail()).error();
        else if (private_uids != nullptr)
            private_uids->lift_quarantine();
    });
    if (private_uids != nullptr)
        private_uids->quarantine(owners);
    return {};
}

Gaps Application::Parts::gaps() const {
    Gaps known{{"uid", "only a server that runs as root gives each sandbox a uid of its own"}};
    const std::map<cgroup::Controller, std::string> names{{cgroup::Controller::memory, "memory"},
                                                          {cgroup::Controller::cpu, "cpu"},
                                                          {cgroup::Controller::pids, "processes"}};
    for (const auto& [controller, why] : groups->places().missing) {
        if (const auto name = names.find(controller); name != names.end())
            known[name->second] = why;
    }
    return gaps_of(sandboxes->enforcement(sandbox::NetworkMode::none), known);
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
    auto look = [path = data.path()] { return fs_guard::free_space(path); };
    disk_meter = std::make_unique<fs_guard::DiskMeter>(
        fs_guard::MeterPorts{clock, timers, std::move(look), std::move(walk)}, meter_settings);
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
    system.capacity = [this] {
        return http::Capacity{sandboxes->living(), sandboxes->capacity(), sandboxes->committed_memory_mb(),
                              sandboxes->memory_capacity_mb()};
    };
    if (config.warm_limit_seconds > 0)
        system.warm_pause = sandboxes->freezer();
    system.ready = [this] { return conversations->ready(); };
    if (config.websocket_compression == "on")
        deflate = std::make_unique<http::SharedDeflate>();
    if (config.measure_loop)
        system.loop = &meter.emplace(loop);
    api = std::make_unique<http::Api>(
        http::Api{*conversations, std::move(system), tokens.get(), deflate.get(), &metrics, {}});
    server = std::make_unique<http::Server>(loop.get_executor(), http_settings(config),
                                            http::make_router(*api), *authenticator);
    const std::map<std::string, const fs_guard::HelperClient*> helpers{
        {"measure", measurer.get()}, {"remove", remover.get()}, {"checkpoint", checkpoint_helper.get()}};
    add_metrics(metrics, {*sandboxes, *conversations, *journal, *metered_store, *api, *server, lag, helpers,
                          data.path()});
    if (!config.tls_cert.empty()) {
        auto loaded = TlsCertificate::open(
            loop.get_executor(), {config.tls_cert, config.tls_key},
            [this](std::shared_ptr<const http::TlsContext> tls) { server->use_tls(std::move(tls)); });
        if (!loaded)
            return loaded.error();
        certificate = std::move(*loaded);
    }
    for (const auto& address : config.listen) {
        auto bound = server->listen(address);
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
    workspaces.reset();
    disk_meter.reset();
    measurer.reset();
    remover.reset();
    checkpointer.reset();
    checkpoint_helper.reset();
    timers.stop();
    lag.stop();
    if (meter)
        meter->stop();
    signals.cancel();
    if (certificate)
        certificate->stop();
    LogLine(evt::server_stopped).info();
}

Application::Application(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Application::~Application() = default;

Result<std::unique_ptr<Application>> Application::open(boost::asio::io_context& loop, const Config& config) {
    raise_descriptor_limit();
    if (config.nice >= 0) {
        base::set_own_slice(base::Slice::whole_turn_ns);
    } else if (!base::set_own_priority(config.nice, base::Slice::whole_turn_ns)) {
        LogLine(evt::priority_refused).field("nice", config.nice).debug();
    }
    auto data = DataDir::open(config.data_dir);
    if (!data)
        return data.error();
    auto parts = std::make_unique<Parts>(loop, config, std::move(*data));
    if (auto opened = parts->open(); !opened)
        return opened.error();
    return std::unique_ptr<Application>(new Application(std::move(parts)));
}

void Application::start() {
    parts_->groups->make_ahead();
    parts_->lag.start();
    parts_->server->start();
    parts_->conversations->open_pool();
    parts_->checkpointer.emplace(parts_->timers, *parts_->checkpoint_helper, *parts_->store, *parts_->journal,
                                 parts_->data.database(), fs_guard::Checkpointer::Bounds{});
    parts_->await_signal();
}

void Application::run() {
    if (parts_->meter)
        parts_->meter->run();
    else
        parts_->loop.run();
}

std::string Application::usage() const {
    UsageFacts facts{parts_->addresses, parts_->data.path(), parts_->data.api_key_file(), {}};
    if (!parts_->key_from_environment)
        facts.generated_key = parts_->key;
    facts.scheme = parts_->certificate ? Scheme::https : Scheme::http;
    return usage_text(facts);
}

}  // namespace atl::app
