#include "app/application.hpp"

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
#include "app/hangups.hpp"
#include "app/host.hpp"
#include "app/host_gaps.hpp"
#include "app/host_memory.hpp"
#include "app/limits_warning.hpp"
#include "app/memory_trim.hpp"
#include "app/metrics.hpp"
#include "app/part_settings.hpp"
#include "app/required_limits.hpp"
#include "app/sandbox_egress.hpp"
#include "app/stored_secrets.hpp"
#include "app/tls_certificate.hpp"
#include "app/usage.hpp"
#include "bridge/checker/checker.hpp"
#include "bridge/runner/program_run.hpp"
#include "bridge/unix_channel.hpp"
#include "cgroup/groups.hpp"
#include "core/base/asio_timers.hpp"
#include "core/base/ending_limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/loop_meter.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/execution/executions.hpp"
#include "core/isolation/bubblewrap_launcher.hpp"
#include "core/isolation/host_probe.hpp"
#include "core/isolation/uid_leases.hpp"
#include "core/sandbox/manager.hpp"
#include "core/store/checkpointer.hpp"
#include "core/store/list_reads.hpp"
#include "core/store/log_epoch.hpp"
#include "core/store/node_store.hpp"
#include "core/store/sqlite_store.hpp"
#include "fs-guard/disk_meter.hpp"
#include "fs-guard/free_space.hpp"
#include "fs-guard/helpers.hpp"
#include "fs-guard/inspector.hpp"
#include "fs-guard/workspace_root.hpp"
#include "fs-guard/workspaces.hpp"
#include "http/access/key_file.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/api/api.hpp"
#include "http/proxy/dialed_stream.hpp"
#include "http/proxy/loopback_doors.hpp"
#include "http/proxy/preview_service.hpp"
#include "http/server/gate.hpp"
#include "http/server/server.hpp"

namespace atl::app {

using base::LogLine;
using base::Result;
namespace evt = base::evt;

constexpr base::Millis k_http_grace{3'000};

// Members are in the order of their construction; they are destroyed in the opposite order.
struct Application::Parts {
    Parts(boost::asio::io_context& with, const Config& configured, std::size_t connections, DataDir&& dir)
        : loop(with),
          config(configured),
          max_connections(connections),
          data(std::move(dir)),
          budgets(configured.user_share_percent, budget_totals(configured, data.path())),
          timers(with.get_executor()),
          meter(with, configured.measure_loop ? base::LoopMeter::Detail::handlers
                                              : base::LoopMeter::Detail::stalls),
          signals(with, SIGTERM, SIGINT),
          hangups(with) {}

    Result<void> open();
    Result<void> open_host();
    Result<void> open_core();
    Result<void> open_logs();
    Result<void> open_database();
    Result<void> open_disk();
    void open_meter();
    void open_inspector();
    Gaps gaps() const;
    Result<void> open_executions();
    Result<void> open_http();
    void open_previews();
    void open_doors();
    void end_logs();
    void await_signal();
    void stop();
    void let_go();

    boost::asio::io_context& loop;
    Config config;
    std::size_t max_connections;
    DataDir data;
    base::Budgets budgets;
    base::SystemClock clock;
    base::AsioTimers timers;
    base::LoopMeter meter;
    boost::asio::basic_signal_set<base::Executor> signals;
    Hangups hangups;
    std::vector<sandbox::AgentSpec> agents;
    std::unique_ptr<store::SqliteStore> store;
    std::unique_ptr<secrets::Secrets> secrets;
    std::unique_ptr<fs_guard::Helpers> helpers;
    std::unique_ptr<store::SqliteNodeStore> node;
    std::optional<store::LogEpoch> log_epoch;
    std::unique_ptr<fs_guard::DiskMeter> disk_meter;
    std::filesystem::path disk_root;  // of workspaces and trash
    std::unique_ptr<fs_guard::Workspaces> workspaces;
    std::unique_ptr<cgroup::Groups> groups;
    std::unique_ptr<sandbox::UidLeases> uids;
    std::unique_ptr<isolation::BubblewrapLauncher> launcher;
    std::string sandbox_path;  // PATH of sandboxes
    std::string bwrap_version;
    std::unique_ptr<bridge::UnixChannels> channels;
    std::unique_ptr<sandbox::Manager> sandboxes;
    std::unique_ptr<fs_guard::Inspector> inspector;
    std::unique_ptr<conversation::Journal> journal;
    std::unique_ptr<conversation::Manager> conversations;
    std::unique_ptr<bridge::checker::Checker> checker;
    std::unique_ptr<bridge::runner::RunnerPrograms> programs;
    std::unique_ptr<execution::Executions> executions;
    std::optional<store::Checkpointer> checkpointer;
    std::optional<store::ListReads> list_reads;
    std::optional<DatabaseWatch> database_watch;
    std::optional<MemoryTrim> memory_trim;
    std::size_t orphans = 0;  // workspaces that no record named at the start
    std::unique_ptr<http::KeyFile> keys;
    std::unique_ptr<http::StreamTokens> tokens;
    std::unique_ptr<http::KeyAuthenticator> authenticator;
    http::Metrics metrics;
    std::unique_ptr<http::Api> api;
    std::unique_ptr<http::Gate> gate;
    std::shared_ptr<http::UpstreamPool> upstreams;
    std::unique_ptr<http::PreviewService> previews;
    std::unique_ptr<http::Server> server;
    std::unique_ptr<SandboxEgress> egress;        // null: the operator allows none
    std::unique_ptr<http::LoopbackDoors> doors;   // null: previews have names
    std::unique_ptr<TlsCertificate> certificate;  // none: no TLS
    std::vector<std::string> addresses;
    std::vector<std::string> preview_addresses;  // where names of previews are answered
    ApiKey key;
    bool stopping = false;
};

Result<void> Application::Parts::open() {
    auto operators_key = data.api_key(std::getenv("ATOLL_API_KEY"));
    if (!operators_key)
        return operators_key.error();
    key = std::move(*operators_key);
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
    if (auto ok = open_executions(); !ok)
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
    auto kept = open_secrets(config, data, *store, clock);
    if (!kept)
        return kept.error();
    secrets = std::move(*kept);
    budgets.all.push_back(&secrets->places());
    return {};
}

Result<void> Application::Parts::open_host() {
    auto launcher_config = make_launcher_config(config, data, agents);
    if (!launcher_config)
        return launcher_config.error();
    sandbox_path = path_of_sandboxes(launcher_config->layout);
    if (auto prepared = isolation::prepare_host(*launcher_config); !prepared)
        return prepared;
    bwrap_version = isolation::bwrap_version(launcher_config->bwrap);
    auto found_groups =
        cgroup::Groups::open(loop.get_executor(), timers, {data.instance_id(), config.zygote});
    if (!found_groups)
        return found_groups.error();
    groups = std::move(*found_groups);
    sandbox::Enforcement by_groups;
    groups->describe(by_groups);
    launcher_config->process_limit = isolation::best_process_limit(by_groups);
    auto made = isolation::BubblewrapLauncher::create(loop.get_executor(), timers, *launcher_config);
    if (!made)
        return made.error();
    launcher = std::move(*made);
    isolation::UidLeaseConfig leases;
    leases.lease_dir = config.uid_lease_dir;
    leases.data_dir = data.path();
    leases.instance_id = data.instance_id();
    auto leased = isolation::open_uids(launcher_config->uid_mode, std::move(leases));
    if (!leased)
        return leased.error();
    uids = std::move(*leased);
    return {};
}

Result<void> Application::Parts::open_core() {
    auto state = conversation::answered_at_once<conversation::StartState>(
        [&](conversation::ReadDone<conversation::StartState> done) { store->load_start(std::move(done)); });
    if (!state)
        return state.error();
    if (auto ok = open_disk(); !ok)
        return ok;
    channels = std::make_unique<bridge::UnixChannels>(loop.get_executor(), timers);
    sandboxes = std::make_unique<sandbox::Manager>(
        sandbox::ManagerPorts{clock, timers, *launcher, *groups, *workspaces, *channels, *uids, *node,
                              [] { return read_host_memory("/proc/meminfo"); }},
        sandbox_settings(config, sandbox_path, agents));
    sandboxes->list_budgets(budgets.all);
    open_inspector();
    if (auto enough = check_required(config.required, gaps()); !enough)
        return enough;
    using Found = std::optional<sandbox::Record>;
    auto taken = sandboxes->take_over(
        {state->sandboxes, [this](const std::string& id) {
             return conversation::answered_at_once<Found>(
                 [&](conversation::ReadDone<Found> done) { store->find_sandbox(id, std::move(done)); });
         }});
    if (!taken)
        return taken.error();
    orphans = *taken;
    if (auto ok = open_logs(); !ok)
        return ok;
    journal = std::make_unique<conversation::Journal>(*store, timers);
    auto settings = conversation_settings(config, agents);
    settings.log_epoch = log_epoch->word();
    settings.reserve_left = [path = data.path(), reserve = config.disk_reserve_percent / 100.0] {
        return reserve_left(fs_guard::free_space(path), reserve);
    };
    conversations = std::make_unique<conversation::Manager>(clock, timers, *sandboxes, *journal, *store,
                                                            budgets.log, std::move(settings));
    return conversations->restore(std::move(*state));
}

Result<void> Application::Parts::open_logs() {
    auto place = data.place_of_logs();
    if (!place)
        return place.error();
    auto begun =
        store::LogEpoch::begin(*store, *node, {std::move(*place), boot_of_host(), data.log_marker()});
    if (!begun)
        return begun.error();
    log_epoch = std::move(*begun);
    return {};
}

void Application::Parts::end_logs() {
    if (!log_epoch)
        return;
    if (const auto ended = log_epoch->end(); !ended)
        LogLine(evt::store_failed).quoted("err", ended.error().detail()).warn();
}

// A server without its list of engines runs no programs, and does all else.
Result<void> Application::Parts::open_executions() {
    auto engines = read_engines(config);
    if (auto known = engines ? check_executor_pools(config, *engines) : Result<void>(); !known)
        return known;
    checker = std::make_unique<bridge::checker::Checker>(
        loop.get_executor(), timers,
        bridge::checker::CheckerConfig{.program = config.checker,
                                       .user_share_percent = config.user_share_percent});
    budgets.all.push_back(&checker->waiting());
    programs = std::make_unique<bridge::runner::RunnerPrograms>(checker.get());
    executions = std::make_unique<execution::Executions>(
        execution::ExecutionContext{budgets.results, clock, timers, *sandboxes, *programs, checker.get()},
        engines ? std::move(*engines) : execution::Engines({}), execution_settings(config),
        [this](const sandbox::Demand& demand) { return conversations->has_capacity(demand); },
        engine_look(config));
    budgets.all.push_back(&executions->places());
    conversations->set_other_pool(
        {[this] { return executions->spare(); }, [this] { return executions->can_spare(); }});
    return {};
}

Result<void> Application::Parts::open_disk() {
    auto started =
        fs_guard::Helpers::start(loop.get_executor(), timers, {config.helper, disk_root, data.path()});
    if (!started)
        return started.error();
    helpers = std::move(*started);
    auto facts = store::SqliteNodeStore::open(data.node_database(), *helpers->checkpointer);
    if (!facts)
        return facts.error();
    node = std::move(*facts);
    open_meter();
    auto provisioned =
        fs_guard::Workspaces::open(disk_root, *helpers->remover, *disk_meter, timers, budgets.removals);
    if (!provisioned)
        return provisioned.error();
    workspaces = std::move(*provisioned);
    return {};
}

Gaps Application::Parts::gaps() const {
    return host_gaps(sandboxes->enforcement(sandbox::NetworkMode::none), groups->places(),
                     launcher->shared_host_files());
}

void Application::Parts::open_meter() {
    auto walk = [this](const std::string& id, std::function<void(Result<fs_guard::TreeSize>)> done) {
        workspaces->measure(id, *helpers->measurer, std::move(done));
    };
    auto look = [this] { return fs_guard::free_space(disk_root, {data.database(), data.node_database()}); };
    // None is asked for before a sandbox lives.
    auto inspect = [this](const std::string& id, fs_guard::Inspector::Done done) {
        inspector->inspect(id, std::move(done));
    };
    disk_meter = std::make_unique<fs_guard::DiskMeter>(
        fs_guard::MeterPorts{clock, timers, std::move(look), std::move(walk), std::move(inspect),
                             &budgets.files},
        meter_settings(config));
}

void Application::Parts::open_inspector() {
    auto hold = [this](const std::string& id, std::function<void(Result<void>)> done) {
        sandboxes->hold_still(id, std::move(done));
    };
    auto end_hold = [this](const std::string& id) { return sandboxes->end_hold(id); };
    auto members = [this](const std::string& id) -> std::optional<fs_guard::Members> {
        const auto first = sandboxes->process(id);
        if (!first)
            return std::nullopt;
        return fs_guard::Members{*first, sandboxes->members(id)};
    };
    auto look = [this](const std::string& id, const fs_guard::Members& of, fs_guard::Inspector::Done done) {
        helpers->inspector->inspect(fs_guard::Workspaces::folder_name(id), of, std::move(done));
    };
    inspector = std::make_unique<fs_guard::Inspector>(fs_guard::InspectorPorts{
        timers, std::move(hold), std::move(end_hold), std::move(members), std::move(look)});
}

Result<void> Application::Parts::open_http() {
    keys = std::make_unique<http::KeyFile>(DataDir::keys_file(data.path()));
    if (auto read = keys->refresh(); !read)
        return read;
    auto token_key = data.token_key();
    if (!token_key)
        return token_key.error();
    tokens = std::make_unique<http::StreamTokens>(std::move(*token_key), clock);
    authenticator = std::make_unique<http::KeyAuthenticator>(key.text, keys.get(), tokens.get());
    http::SystemInfo system = system_info(config);
    system.bubblewrap = bwrap_version;
    system.gaps = gaps();
    system.enforcement = [this] { return sandboxes->enforcement(sandbox::NetworkMode::none); };
    system.capacity = [this] {
        return http::Capacity{sandboxes->living(), sandboxes->capacity(), sandboxes->committed_memory_mb(),
                              sandboxes->memory_capacity_mb()};
    };
    system.undying = [this] { return sandboxes->undying(base::k_max_undying_told); };
    if (config.warm_limit_seconds > 0)
        system.warm_pause = sandboxes->freezer();
    system.ready = [this] { return conversations->ready(); };
    system.orphans = orphans;
    if (config.measure_loop)
        system.loop = &meter;
    system.preview_frames = preview_frames(config);
    system.public_url = [this](const std::string& id, std::uint16_t port) {
        return config.previews ? public_url(config, id, port, preview_addresses)
                               : conversations->preview_ports().url(id);
    };
    conversations->set_port_url([this](const sandbox::Record& sandbox, std::uint16_t port) {
        if (port == sandbox.preview.ports.front() && api->system.public_url)
            return api->system.public_url(sandbox.id, port);
        const auto& names = config.names_of_ports();
        const bool is_shown = config.port_names || std::ranges::count(sandbox.preview.ports, port) > 0;
        const auto host = names && is_shown ? names->host_of_port(sandbox.id, port) : std::nullopt;
        return host ? url_of_host(config, *host, preview_addresses) : std::string();
    });
    api = std::make_unique<http::Api>(
        http::Api{*conversations, budgets, std::move(system), tokens.get(), &metrics, {}});
    api->executions = executions.get();
    api->checks = checker.get();
    api->secrets = secrets.get();
    gate = std::make_unique<http::Gate>(gate_settings(config), http::make_router(*api), *authenticator);
    http::Settings settings = http_settings(config, max_connections);
    settings.buffers = &budgets.connections;
    settings.bodies = &budgets.bodies;
    server = std::make_unique<http::Server>(loop.get_executor(), clock, timers, std::move(settings));
    auto made = SandboxEgress::open(
        config, {loop.get_executor(), timers, clock, *server, *secrets, *conversations, budgets}, *sandboxes);
    if (!made)
        return made.error();
    egress = std::move(*made);
    api->egress_questions = egress ? &egress->questions() : nullptr;
    add_metrics(metrics, {*sandboxes, launcher->failures(), *conversations, *journal, *api, *server, meter,
                          *checker, helpers->by_work(), disk_root, egress ? &egress->recorder() : nullptr});
    if (!config.tls_cert.empty()) {
        auto loaded = TlsCertificate::open(
            {config.tls_cert, config.tls_key},
            [this](std::shared_ptr<const http::TlsContext> tls) { server->use_tls(std::move(tls)); });
        if (!loaded)
            return loaded.error();
        certificate = std::move(*loaded);
    }
    http::Services services(*gate);
    open_previews();
    if (const auto& names = config.names_of_ports(); names && config.preview_listen.empty())
        services.add("*." + names->domain(), *previews);
    if (const std::string warning = listen_warning(config); !warning.empty())
        LogLine(evt::listen_warning).quoted("err", warning).warn();
    for (const auto& address : config.listen) {
        auto bound = server->listen(address, services);
        if (!bound)
            return bound.error();
        addresses.insert(addresses.end(), bound->begin(), bound->end());
    }
    preview_addresses = addresses;
    if (config.preview_listen.empty())
        return {};
    auto bound = server->listen(config.preview_listen, http::Services(*previews));
    if (!bound)
        return bound.error();
    preview_addresses = std::move(*bound);
    return {};
}

void Application::Parts::open_previews() {
    upstreams = std::make_shared<http::UpstreamPool>(
        loop.get_executor(), clock, timers,
        [this](const std::string& id, std::uint16_t port) { return conversations->connect(id, port); },
        http::UpstreamBounds{.of_sandbox = config.preview_connections,
                             .user_share_percent = config.user_share_percent},
        [this](const std::string& id, std::uint16_t port,
               std::shared_ptr<const void> held) -> base::Result<std::unique_ptr<http::ByteStream>> {
            sandbox::Operations* const inside = conversations->operations_of_living(id);
            if (inside == nullptr)
                return base::Error(base::Errc::sandbox_gone);
            const auto dial = [&](sandbox::DialObserver& observer) { return inside->dial(port, observer); };
            return std::make_unique<http::DialedStream>(loop.get_executor(), dial, std::move(held));
        });
    previews = std::make_unique<http::PreviewService>(preview_settings(config), *conversations, upstreams,
                                                      http::PreviewService::Known{*authenticator, *tokens});
    budgets.all.push_back(&upstreams->connections());
    budgets.all.push_back(&previews->wakes());
    budgets.all.push_back(&previews->wake_tries());
    budgets.all.push_back(&conversations->preview_ports().numbers());
    if (!config.previews)
        doors = std::make_unique<http::LoopbackDoors>(*server, *previews);
}

// Only at the start: it spawns, and the addresses of --listen go before the ports of previews.
void Application::Parts::open_doors() {
    if (doors != nullptr)
        conversations->preview_ports().enable(
            *doors, {std::chrono::seconds(config.preview_linger_seconds), config.max_preview_doors});
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
    executions->shut_down();
    // Turns end and sandboxes go down while clients still listen; then the streams have said all there is.
    conversations->shut_down([this] { server->stop(k_http_grace, [this] { let_go(); }); });
}

void Application::Parts::let_go() {
    launcher->let_go();
    workspaces.reset();
    disk_meter.reset();
    inspector.reset();
    database_watch.reset();
    memory_trim.reset();
    list_reads.reset();
    upstreams->clear();
    conversations->preview_ports().disable();
    checkpointer.reset();
    checker->close();
    helpers.reset();
    if (egress)
        egress->let_go();
    timers.stop();
    meter.stop();
    signals.cancel();
    hangups.stop();
    LogLine(evt::server_stopped).info();
}

Application::Application(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Application::~Application() = default;

Result<std::unique_ptr<Application>> Application::open(boost::asio::io_context& loop, const Config& config) {
    for (const std::string& warning : config.unread_variables)
        LogLine(evt::variable_unread).quoted("err", warning).warn();
    Config bounded = config;
    const auto shares = bound_sandboxes(raise_descriptor_limit(), config.max_sandboxes);
    if (!shares)
        return shares.error();
    bounded.max_sandboxes = shares->sandboxes;
    bounded.max_preview_doors = shares->preview_doors;
    take_priority(config.nice);
    auto data = DataDir::open(config.data_dir);
    if (!data)
        return data.error();
    auto parts = std::make_unique<Parts>(loop, bounded, shares->connections, std::move(*data));
    if (auto opened = parts->open(); !opened) {
        // The next start must not take this for a server that its host took down.
        parts->end_logs();
        return opened.error();
    }
    return std::unique_ptr<Application>(new Application(std::move(parts)));
}

void Application::start() {
    parts_->groups->make_ahead();
    parts_->open_doors();
    parts_->server->start();
    parts_->conversations->open_pool();
    parts_->executions->open_pool();
    parts_->sandboxes->watch_host_memory();
    parts_->checkpointer.emplace(parts_->timers, *parts_->helpers->checkpointer, *parts_->store,
                                 *parts_->journal, parts_->data.database(), store::Checkpointer::Bounds{});
    parts_->list_reads.emplace(parts_->timers, *parts_->helpers->finder, *parts_->store,
                               parts_->data.database());
    parts_->conversations->count_logs();
    parts_->database_watch.emplace(parts_->timers, *parts_->store, parts_->data.backup_lock());
    parts_->memory_trim.emplace(parts_->timers);
    parts_->await_signal();
    parts_->hangups.await(parts_->certificate.get(),
                          parts_->egress ? parts_->egress->recorder().log() : nullptr);
}

void Application::run() {
    parts_->meter.run();
    parts_->end_logs();
}

std::string Application::warning() const {
    const std::string text = limits_warning(parts_->gaps(), this_starter()) + parts_->config.fixes +
                             default_agent_fix(parts_->config, parts_->agents) +
                             code_mode_fix(parts_->executions->engines().languages());
    return text.empty() ? text : text + "\n\n";
}

std::string Application::usage() const {
    UsageFacts facts{parts_->addresses, parts_->data.path(), parts_->data.api_key_file(), {}};
    facts.preview_domain = parts_->config.preview_domain;
    if (!parts_->key.is_given)
        facts.generated_key = parts_->key.text;
    facts.reader = ::isatty(STDOUT_FILENO) == 1 ? Reader::terminal : Reader::other;
    facts.scheme = parts_->certificate ? Scheme::https : Scheme::http;
    facts.languages = parts_->executions->engines().languages();
    return usage_text(facts);
}

}  // namespace atl::app
