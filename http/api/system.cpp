// Routes that tell of the server itself.
#include "core/base/clock.hpp"
#include "core/base/json_writer.hpp"
#include "core/execution/executions.hpp"
#include "http/access/limit_ceilings.hpp"
#include "http/api/api.hpp"
#include "http/api/views.hpp"
#include "http/console/console.hpp"
#include "http/server/metrics.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Result;
using base::Task;

constexpr std::string_view k_metrics_type = "text/plain; version=0.0.4; charset=utf-8";

Task<Result<Response>> async_health(Api&, RequestContext&) {
    co_return json_response(R"({"status":"ok"})");
}

Task<Result<Response>> async_metrics(Api& api, RequestContext&) {
    Response response;
    response.content_type = k_metrics_type;
    if (api.metrics != nullptr)
        response.body = api.metrics->text();
    co_return response;
}

Task<Result<Response>> async_ready(Api& api, RequestContext&) {
    const auto ready = api.system.ready();
    if (ready.has_error())
        co_return ready.error();
    co_return json_response(R"({"status":"ready"})");
}

// A number that is no limit is null.
void write_default_limits(base::JsonWriter& json, const LimitSettings& limits) {
    const auto write = [&](std::string_view name, std::size_t value) {
        json.key(name);
        if (value == 0)
            json.null();
        else
            json.number(value);
    };
    json.begin_object();
    write("connectionsPerAddress", limits.connections_per_address);
    write("requestsPerSecondPerAddress", limits.requests_per_second_per_address);
    write("requestsPerSecondPerKey", limits.requests_per_second_per_key);
    write("failedLoginsPerMinute", limits.failed_logins_per_minute);
    write("streamsPerConversation", limits.streams_per_conversation);
    write("streamsPerKey", limits.streams_per_key);
    json.end_object();
}

void write_ceilings(base::JsonWriter& json, const sandbox::LimitChanges& ceilings) {
    json.begin_object();
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
        json.key(limit.api);
        if (const auto ceiling = ceilings.*limit.change)
            json.number(*ceiling);
        else
            json.null();
    }
    json.end_object();
}

// A key with a user is not told what others use.
void write_budgets(base::JsonWriter& json, const base::Budgets& budgets, const Principal& principal) {
    json.begin_array();
    for (const base::Budget* const budget : budgets.all) {
        const base::BudgetSpec& spec = budget->spec();
        json.begin_object();
        json.key("name").string(spec.name);
        json.key("unit").string(spec.unit);
        json.key("total").number(spec.total);
        json.key("floor").number(spec.floor);
        json.key("used");
        if (principal.unrestricted())
            json.number(budget->used());
        else
            json.null();
        json.key("own").number(budget->held_by(holder_of(principal)));
        json.key("freedBy").string(spec.freed_by);
        json.end_object();
    }
    json.end_array();
}

void write_histogram(base::JsonWriter& json, const base::Histogram& histogram) {
    const auto us = [](base::Histogram::Micros value) { return static_cast<std::uint64_t>(value.count()); };
    json.begin_object();
    json.key("count").number(histogram.count());
    json.key("p50").number(us(histogram.quantile(0.5)));
    json.key("p99").number(us(histogram.quantile(0.99)));
    json.key("p999").number(us(histogram.quantile(0.999)));
    json.key("max").number(us(histogram.max()));
    json.end_object();
}

void write_loop(base::JsonWriter& json, const base::LoopMeter* meter) {
    if (meter == nullptr) {
        json.null();
        return;
    }
    json.begin_object();
    write_histogram(json.key("latenessUs"), meter->lateness());
    write_histogram(json.key("handlerCpuUs"), meter->handler_cpu());
    json.end_object();
}

// A key with a user is not told of other users' sandboxes.
void write_undying(base::JsonWriter& json, const Api& api, const Principal& principal) {
    json.begin_array();
    for (const auto& one :
         principal.unrestricted() ? api.system.undying() : std::vector<sandbox::Unkillable>()) {
        json.begin_object();
        json.key("sandboxId");
        if (one.sandbox_id.empty())
            json.null();
        else
            json.string(one.sandbox_id);
        json.key("generation").number(one.generation);
        json.key("since").string(base::rfc3339(one.since));
        json.key("processes");
        if (one.processes)
            json.number(*one.processes);
        else
            json.null();
        json.end_object();
    }
    json.end_array();
}

Task<Result<Response>> async_system(Api& api, RequestContext& context) {
    std::string out;
    base::JsonWriter json(out);
    json.begin_object();
    json.key("version").string(api.system.version);
    json.key("bubblewrap").string(api.system.bubblewrap);
    json.key("agents").begin_array();
    for (const auto& agent : api.conversations.agents())
        json.string(agent.name);
    json.end_array();
    json.key("defaultAgent").string(api.system.default_agent);
    json.key("console").begin_object().key("terminal");
    json.raw(console_has_terminal() ? "true" : "false").end_object();
    json.key("networks").begin_array();
    for (const auto& network : api.system.networks) {
        // That of the host is refused to keys with a user.
        if (context.principal.unrestricted() || network != to_string(sandbox::NetworkMode::host))
            json.string(network);
    }
    json.end_array();
    json.key("egress").begin_object().key("groups").begin_array();
    for (const auto& group : api.system.egress_groups)
        json.string(group);
    json.end_array().end_object();
    json.key("codeMode").begin_array();
    if (api.executions != nullptr) {
        for (const auto language : api.executions->engines_now().languages())
            json.string(to_string(language));
    }
    json.end_array();
    write_enforcement(json.key("enforcement"), api.system.enforcement());
    json.key("notEnforced").begin_object();
    for (const auto& [limit, why] : api.system.gaps)
        json.key(limit).string(why);
    json.end_object();
    const Capacity capacity = api.system.capacity();
    json.key("capacity").begin_object();
    json.key("livingSandboxes").number(capacity.living);
    json.key("maxSandboxes").number(capacity.max);
    json.key("conversations").number(api.conversations.count());
    json.key("maxConversations").number(api.conversations.bounds().all);
    json.key("maxConversationsPerUser").number(api.conversations.bounds().of_user);
    json.key("memoryMb").number(capacity.memory_mb);
    if (capacity.max_memory_mb == 0)
        json.key("maxMemoryMb").null();
    else
        json.key("maxMemoryMb").number(capacity.max_memory_mb);
    json.end_object();
    json.key("userSharePercent").number(api.budgets.exec.user_percent());
    write_budgets(json.key("budgets"), api.budgets, context.principal);
    json.key("pool").begin_array();
    for (const auto& pool : api.conversations.pool()) {
        json.begin_object();
        json.key("agent").string(pool.agent);
        json.key("size").number(pool.size);
        json.key("ready").number(pool.ready);
        json.end_object();
    }
    json.end_array();
    json.key("orphans").number(api.system.orphans);
    write_undying(json.key("undying"), api, context.principal);
    json.key("warmPause").string(api.system.warm_pause);
    write_default_limits(json.key("clientLimits"), api.system.limits);
    write_ceilings(json.key("limitCeilings"), ceilings_for(context.principal, api.system.ceilings));
    write_loop(json.key("loop"), api.system.loop);
    json.end_object();
    co_return json_response(std::move(out));
}

Task<Result<Response>> async_agents(Api& api, RequestContext&) {
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("agents").begin_array();
    for (const sandbox::AgentSpec& agent : api.conversations.agents()) {
        json.begin_object().key("name").string(agent.name);
        json.key("adapter").string(agent.adapter.empty() ? "built-in" : agent.adapter);
        json.key("installed").raw(agent.missing.empty() ? "true" : "false");
        if (!agent.missing.empty())
            json.key("reason").string(agent.missing);
        if (!agent.missing.empty() && !agent.setup.empty())
            json.key("setup").string(agent.setup);
        json.end_object();
    }
    json.end_array().end_object();
    co_return json_response(std::move(out));
}

}  // namespace

std::vector<Route> system_routes(Api& api) {
    std::vector<Route> routes;
    Route health{Method::get, "/healthz", "getHealth", "The server runs.", bind_handler(api, async_health),
                 Auth::open};
    health.responses = {{200, "It runs.", "Health"}};
    routes.push_back(std::move(health));

    Route ready{
        Method::get, "/readyz", "getReadiness", "The server takes work.", bind_handler(api, async_ready),
        Auth::open};
    ready.responses = {{200, "It takes work.", "Health"}};
    ready.errors = {Errc::shutting_down, Errc::storage_failed, Errc::host_unsupported};
    routes.push_back(std::move(ready));

    Route metrics{Method::get, "/metrics", "getMetrics",
                  "What the server counts and measures, for Prometheus.", bind_handler(api, async_metrics)};
    metrics.responses = {{200, "The metrics as of now.", "Metrics", k_metrics_type}};
    routes.push_back(std::move(metrics));

    Route system{
        Method::get, "/v1/system", "getSystem",
        "Version, agents, what this host enforces, capacity, limits of a client; how late its loop is, if "
        "`--measure-loop`.",
        bind_handler(api, async_system)};
    system.responses = {{200, "What the server is.", "System"}};
    system.user_keys = UserKeys::allowed;
    routes.push_back(std::move(system));

    Route agents{Method::get, "/v1/agents", "listAgents", "The agents that a conversation may have.",
                 bind_handler(api, async_agents)};
    agents.responses = {{200, "All of them, those that are not installed on this host too.", "AgentList"}};
    agents.user_keys = UserKeys::allowed;
    routes.push_back(std::move(agents));
    return routes;
}

}  // namespace atl::http
