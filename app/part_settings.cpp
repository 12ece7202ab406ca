#include "app/part_settings.hpp"

#include <locale.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/agents_file.hpp"
#include "core/base/fix.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/nearest.hpp"
#include "core/plain/preview_limits.hpp"
#include "core/sandbox/env_policy.hpp"
#include "fs-guard/free_space.hpp"
#include "fs-guard/workspace_root.hpp"
#include "http/access/access.hpp"
#include "http/access/limit_ceilings.hpp"
#include "http/proxy/preview_service.hpp"

namespace atl::app {

using base::Errc;
using base::Error;
using base::Result;

namespace {

// Where scripts/setup --agents of root puts agents.
constexpr const char* k_installed_agents = "/usr/local/lib/atoll/agents";

/// Empty: there is none.
std::filesystem::path agents_file_of(const Config& config) {
    namespace fs = std::filesystem;
    if (!config.agents_file.empty())
        return config.agents_file;
    // The last one is that of scripts/setup of others.
    for (const fs::path& folder :
         {config.data_dir, fs::path(k_installed_agents), config.runners.parent_path() / "../../agents"}) {
        std::error_code ignored;
        if (fs::exists(folder / "agents.json", ignored))
            return folder / "agents.json";
    }
    return {};
}

}  // namespace

Result<std::vector<sandbox::AgentSpec>> configured_agents(const Config& config) {
    const auto file = agents_file_of(config);
    auto agents = file.empty()
                      ? Result<std::vector<sandbox::AgentSpec>>(ready_made_agents(k_installed_agents))
                      : read_agents(file);
    if (!agents)
        return agents.error();
    std::vector<std::string> names;
    for (const sandbox::AgentSpec& agent : *agents)
        names.push_back(agent.name);
    const auto is_configured = [&](const std::string& name) { return std::ranges::count(names, name) > 0; };
    if (!is_configured(config.default_agent))
        return Error(Errc::unknown_agent, "--default-agent names " + config.default_agent +
                                              ", which is not configured" +
                                              base::did_you_mean(config.default_agent, names, "", ".") +
                                              base::those_there_are("agents", names));
    for (const auto& pool : config.pool) {
        if (!is_configured(pool.agent))
            return Error(Errc::unknown_agent, "--pool names " + pool.agent + ", which is not configured" +
                                                  base::did_you_mean(pool.agent, names, "", ".") +
                                                  base::those_there_are("agents", names));
    }
    return agents;
}

std::string default_agent_fix(const Config& config, const std::vector<sandbox::AgentSpec>& agents) {
    const auto agent = std::ranges::find(agents, config.default_agent, &sandbox::AgentSpec::name);
    const bool is_there = agent == agents.end() || agent->missing.empty() || agent->setup.empty();
    return is_there ? "" : base::fix_line(agent->setup);
}

std::string lang_of_sandboxes(const char* lang) {
    const std::string_view named = lang == nullptr ? "" : lang;
    if (named.empty() || named == "C" || named == "POSIX")
        return "C.UTF-8";
    // Sandboxes see the locales of this very host.
    const locale_t found = ::newlocale(LC_ALL_MASK, lang, nullptr);
    if (found == nullptr)
        return "C.UTF-8";
    ::freelocale(found);
    return lang;
}

namespace {

// The key may stand behind a word such as `Bearer`.
bool is_set_by_route(const std::vector<sandbox::AgentSpec>& agents, const std::string& value) {
    const auto has_value = [&](const sandbox::RouteHeader& header) { return header.value.ends_with(value); };
    const auto sets = [&](const sandbox::EgressRoute& route) {
        return std::ranges::any_of(route.headers, has_value);
    };
    return !value.empty() && std::ranges::any_of(agents, [&](const sandbox::AgentSpec& agent) {
        return std::ranges::any_of(agent.routes, sets);
    });
}

}  // namespace

sandbox::ManagerSettings sandbox_settings(const Config& config, const std::string& sandbox_path,
                                          const std::vector<sandbox::AgentSpec>& agents) {
    sandbox::ManagerSettings settings;
    settings.max_sandboxes = config.max_sandboxes;
    settings.max_memory_mb = config.max_memory_mb;
    settings.user_share_percent = config.user_share_percent;
    settings.memory_reserve = config.memory_reserve_percent / 100.0;
    // Requests with the server's own keys get the same limits: sandboxes of the pool are compared with these.
    auto ceilings = config.ceilings;
    if (config.max_memory_mb > 0 && config.max_memory_mb < ceilings.memory_mb.value_or(UINT32_MAX))
        ceilings.memory_mb = static_cast<std::uint32_t>(config.max_memory_mb);
    settings.default_limits = http::lowered_to(ceilings, config.default_limits);
    settings.host_env = sandbox::pick_host_env(environ);
    std::erase_if(settings.host_env, [&](const auto& variable) {
        return variable.first == "ANTHROPIC_API_KEY" && is_set_by_route(agents, variable.second);
    });
    std::erase_if(settings.host_env, [](const auto& variable) { return variable.first == "PATH"; });
    settings.host_env.emplace_back("PATH", sandbox_path);
    std::erase_if(settings.host_env, [](const auto& variable) { return variable.first == "LANG"; });
    settings.host_env.emplace_back("LANG", lang_of_sandboxes(std::getenv("LANG")));
    return settings;
}

fs_guard::MeterSettings meter_settings(const Config& config) {
    fs_guard::MeterSettings settings;
    settings.period = std::chrono::seconds(config.disk_period_seconds);
    settings.reserve = config.disk_reserve_percent / 100.0;
    return settings;
}

base::BudgetTotals budget_totals(const Config& config, const std::filesystem::path& data_dir) {
    constexpr std::uint64_t k_bytes_per_mb = 1024UL * 1024;
    base::BudgetTotals totals;
    totals.bodies = config.body_memory_mb * k_bytes_per_mb;
    if (config.log_mb > 0)
        totals.logs = config.log_mb * k_bytes_per_mb;
    else if (const auto space = fs_guard::free_space(data_dir))
        totals.logs = std::max(space->total_bytes / 10, k_bytes_per_mb);
    const auto root = fs_guard::workspace_root(data_dir);
    if (const auto space = root ? fs_guard::free_space(*root) : std::nullopt; space && space->total_bytes > 0)
        totals.files = space->total_bytes;
    return totals;
}

double reserve_left(const std::optional<fs_guard::FreeSpace>& space, double reserve) {
    const double wanted = space ? static_cast<double>(space->total_bytes) * reserve : 0;
    if (wanted <= 0)
        return 1;
    const auto free = static_cast<double>(space->free_bytes);
    const bool is_out = free < std::min(wanted / 2, static_cast<double>(base::k_room_for_cuts_bytes));
    return is_out ? 0 : free / wanted;
}

http::SystemInfo system_info(const Config& config) {
    http::SystemInfo system;
    system.version = ATOLL_VERSION;
    system.default_agent = config.default_agent;
    system.networks = {"none"};
    if (config.allow_host_network)
        system.networks.emplace_back("host");
    if (config.egress.is_on())
        system.networks.emplace_back("egress");
    system.egress_groups = config.egress.group_names();
    system.limits = config.limits;
    system.ceilings = config.ceilings;
    system.heartbeat_interval = std::chrono::seconds(config.heartbeat_seconds);
    return system;
}

execution::EngineFolders engine_folders(const Config& config) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    execution::EngineFolders folders{config.runners, config.executors};
    if (folders.packages.empty()) {
        // scripts/setup --executors of root, and of others.
        folders.packages = "/usr/local/lib/atoll/executors";
        if (!fs::exists(folders.packages / "runner", ignored))
            folders.packages = config.runners.parent_path() / "../../executors";
    }
    folders.packages = fs::weakly_canonical(folders.packages, ignored);
    return folders;
}

// Where they are may be another folder by then.
execution::Executions::Look engine_look(const Config& config) {
    if (!why_no_executions(config).empty())
        return nullptr;
    return [&config] { return execution::Engines::read(engine_folders(config)); };
}

base::Result<void> check_executor_pools(const Config& config, const execution::Engines& engines) {
    for (const auto& pool : config.executor_pools.value_or(std::vector<execution::RunnerPoolSize>())) {
        std::optional<execution::Language> language;
        const auto engine = engines.choose(pool.executor, language);
        if (!engine && engine.error().code() == base::Errc::invalid_field)
            return base::Error(base::Errc::invalid_field, "--executor-pool: " + engine.error().detail());
    }
    return {};
}

std::string why_no_executions(const Config& config) {
    if (config.max_memory_mb == 0 || config.max_memory_mb >= base::k_least_execution_memory_mb)
        return {};
    return "--max-memory-mb is " + std::to_string(config.max_memory_mb) + ", and a program has " +
           std::to_string(base::k_least_execution_memory_mb) + " MB at least";
}

base::Result<execution::Engines> read_engines(const Config& config) {
    auto engines = execution::Engines::read(engine_folders(config));
    if (!engines)
        base::LogLine(base::evt::executors_missing).quoted("err", engines.error().detail()).warn();
    else if (!engines->stale_runner().empty())
        base::LogLine(base::evt::executors_stale)
            .quoted("err", engines->stale_runner().string() +
                               " is not of this version of the server: run scripts/setup --executors again")
            .warn();
    if (const std::string why = why_no_executions(config); engines && !why.empty()) {
        base::LogLine(base::evt::executors_missing).quoted("err", why).warn();
        for (const execution::Engine& engine : engines->all())
            engines->set_reason(engine, why);
    }
    return engines;
}

// With a certificate the console is of another origin than a preview at the same port, which has plain HTTP.
std::string listen_warning(const Config& config) {
    if (config.previews || !config.tls_cert.empty())
        return {};
    constexpr unsigned k_first = base::k_first_preview_number;
    constexpr unsigned k_last = k_first + base::k_preview_numbers - 1;
    for (const std::string& address : config.listen) {
        unsigned port = 0;
        const std::string digits = address.substr(address.rfind(':') + 1);
        std::from_chars(digits.data(), digits.data() + digits.size(), port);
        if (!address.starts_with("unix:") && port >= k_first && port <= k_last)
            return "--listen " + address + " is a port of the previews (" + std::to_string(k_first) + " to " +
                   std::to_string(k_last) +
                   "): a service worker that one of them left in a browser reads what the console at this "
                   "port is given, the API key too; choose another port";
    }
    return {};
}

execution::ExecutionSettings execution_settings(const Config& config) {
    execution::ExecutionSettings settings;
    settings.max_memory_mb = config.execute_max_memory_mb;
    settings.user_share_percent = config.user_share_percent;
    // No run could ever start with more.
    if (config.max_memory_mb > 0 && config.max_memory_mb < settings.max_memory_mb)
        settings.max_memory_mb =
            std::max(static_cast<std::uint32_t>(config.max_memory_mb), base::k_least_execution_memory_mb);
    sandbox::Limits defaults;
    defaults.memory_mb = settings.default_memory_mb;
    defaults.cpu_percent = settings.default_cpu_percent;
    defaults = http::lowered_to(config.ceilings, defaults);
    settings.default_memory_mb = defaults.memory_mb;
    settings.default_cpu_percent = defaults.cpu_percent;
    if (config.executor_pools)
        settings.pools = *config.executor_pools;
    else
        settings.pools.push_back({"auto", 1, execution::RunnerPoolSize::From::first_run});
    return settings;
}

std::string preview_frames(const Config& config) {
    const std::string frames =
        config.previews ? "*." + config.previews->domain() + ":*" : "http://localhost:*";
    return config.port_names ? frames + " http://*." + config.port_names->domain() + ":*" : frames;
}

http::Settings http_settings(const Config& config, std::size_t max_connections) {
    http::Settings settings;
    settings.unix_socket_group = config.unix_socket_group;
    settings.heartbeat_interval = std::chrono::seconds(config.heartbeat_seconds);
    settings.max_connections = std::min(settings.max_connections, max_connections);
    settings.access_log = config.access_log == "all" ? http::AccessLog::all : http::AccessLog::failures;
    return settings;
}

http::PreviewSettings preview_settings(const Config& config) {
    http::PreviewSettings settings{config.previews,
                                   {},
                                   {config.preview_wakes_per_minute, config.user_share_percent},
                                   config.allowed_origins,
                                   config.limits};
    settings.port_names = config.port_names;
    // Nothing stands before a port of this machine.
    settings.trusted_proxies = config.previews ? config.trusted_proxies : http::TrustedProxies();
    return settings;
}

http::GateSettings gate_settings(const Config& config) {
    http::GateSettings settings;
    settings.allowed_hosts = config.allowed_hosts;
    settings.allowed_origins = config.allowed_origins;
    settings.trusted_proxies = config.trusted_proxies;
    settings.limits = config.limits;
    return settings;
}

std::string public_url(const Config& config, const std::string& sandbox_id, std::uint16_t first_port,
                       const std::vector<std::string>& addresses) {
    return url_of_host(config, config.previews->host(sandbox_id, first_port), addresses);
}

std::string url_of_host(const Config& config, const std::string& host,
                        const std::vector<std::string>& addresses) {
    constexpr std::string_view k_host = "{host}";
    if (!config.preview_url.empty()) {
        std::string url = config.preview_url;
        url.replace(url.find(k_host), k_host.size(), host);
        return url.ends_with('/') ? url : url + '/';
    }
    if (config.previews && !http::is_localhost(config.previews->domain()))
        return "https://" + host + "/";
    const std::string scheme = config.tls_cert.empty() ? "http://" : "https://";
    for (const std::string& address : addresses) {
        if (!address.starts_with("unix:"))
            return scheme + host + address.substr(address.rfind(':')) + "/";
    }
    return scheme + host + "/";
}

conversation::ManagerSettings conversation_settings(const Config& config,
                                                    std::vector<sandbox::AgentSpec> agents) {
    conversation::ManagerSettings settings;
    settings.agents = std::move(agents);
    settings.default_agent = config.default_agent;
    settings.default_idle_seconds = config.default_idle_seconds;
    settings.default_ttl_seconds = config.default_ttl_seconds;
    settings.default_preview.ports = config.default_preview_ports;
    settings.default_preview.any_port = config.port_names.has_value();
    settings.allow_host_network = config.allow_host_network;
    settings.conversation_bounds = config.conversations;
    settings.keep_ended = std::chrono::seconds(config.keep_ended_seconds);
    settings.log_bounds = {config.turn_log_bytes, config.conversation_log_bytes};
    settings.turn_limit = std::chrono::seconds(config.turn_limit_seconds);
    settings.pool = config.pool;
    settings.evict_idle = std::chrono::seconds(config.evict_idle_seconds);
    settings.warm_limit = std::chrono::seconds(config.warm_limit_seconds);
    return settings;
}

}  // namespace atl::app
