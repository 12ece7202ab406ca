#include "core/sandbox/env_policy.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "core/base/limits.hpp"
#include "core/plain/egress_limits.hpp"
#include "core/plain/inner_paths.hpp"

namespace atl::sandbox {
namespace {

using base::Errc;
using base::Error;

constexpr std::array<std::string_view, 6> k_passed_through = {
    "PATH", "NODE_PATH", "LANG", "TERM", "ANTHROPIC_API_KEY", "ASH_DEBUG_TIMING"};
constexpr std::array<std::string_view, 2> k_also_injected = {"HOME", base::k_max_processes_variable};

// The language and encoding are the program's own matter: a request may choose.
constexpr std::string_view k_lang = "LANG";

// Programs that honour a proxy look at either spelling, and node at both only where it is told to. What is on
// the sandbox's own loopback needs no proxy.
constexpr std::string_view k_proxy = "http://127.0.0.1:3128";
static_assert(base::k_egress_port == 3128);
constexpr std::string_view k_no_proxy = "localhost,127.0.0.1,::1";
// Packages are installed where programs may write and where a pause keeps them: npm's global packages by
// this prefix, those of pip by themselves once the system's refusal is off (PIP_USER would break each venv).
constexpr std::string_view k_local = "/workspace/.local";
constexpr std::string_view k_local_programs = "/workspace/.local/bin";
// Programs look at one of these for the issuers that they trust, and at the system's file without it.
constexpr std::string_view k_bundle = base::k_inner_bundle;
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> k_egress_variables = {
    {{"HTTP_PROXY", k_proxy},
     {"HTTPS_PROXY", k_proxy},
     {"ALL_PROXY", k_proxy},
     {"NO_PROXY", k_no_proxy},
     {"http_proxy", k_proxy},
     {"https_proxy", k_proxy},
     {"all_proxy", k_proxy},
     {"no_proxy", k_no_proxy},
     {"NODE_USE_ENV_PROXY", "1"},
     {"NPM_CONFIG_PREFIX", k_local},
     {"PIP_BREAK_SYSTEM_PACKAGES", "1"},
     {"NODE_EXTRA_CA_CERTS", k_bundle},
     {"SSL_CERT_FILE", k_bundle},
     {"CURL_CA_BUNDLE", k_bundle},
     {"REQUESTS_CA_BUNDLE", k_bundle},
     {"PIP_CERT", k_bundle},
     {"GIT_SSL_CAINFO", k_bundle},
     {"CARGO_HTTP_CAINFO", k_bundle},
     {"AWS_CA_BUNDLE", k_bundle},
     {"DENO_CERT", k_bundle}}};

// Routes with these names are found by the clients of their APIs, in these variables. Clients of OpenAI's
// want the version in the address, others add it. A key has to be there, or they do not begin.
struct ApiRoute {
    std::string_view name;
    std::string_view base_url;
    std::string_view version;
    std::string_view key;
};
constexpr std::array<ApiRoute, 3> k_api_routes = {
    {{"anthropic", "ANTHROPIC_BASE_URL", "", "ANTHROPIC_API_KEY"},
     {"openai", "OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY"},
     {"gemini", "GOOGLE_GEMINI_BASE_URL", "", "GEMINI_API_KEY"}}};
constexpr std::string_view k_placeholder_key = "set-outside-the-sandbox";
constexpr std::string_view k_routes_url = "http://127.0.0.1:3129/";
static_assert(base::k_route_port == 3129);

bool has_variable(const Environment& env, std::string_view name) {
    return std::ranges::any_of(env, [&](const auto& variable) { return variable.first == name; });
}

/// `env` with what a program needs that may reach hosts: a request's own variables, `wanted`, go before.
void add_egress_variables(Environment& env, const Environment& wanted) {
    for (const auto& [name, value] : k_egress_variables) {
        if (!has_variable(wanted, name))
            env.emplace_back(name, value);
    }
    for (auto& [name, value] : env) {
        if (name == "PATH")
            value = std::string(k_local_programs) + ':' + value;
    }
}

bool contains(const auto& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_name(std::string_view name) {
    const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
    return !name.empty() && letter(name[0]) &&
           std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void set_variable(Environment& env, std::string_view name, std::string value) {
    std::erase_if(env, [&](const auto& variable) { return variable.first == name; });
    env.emplace_back(name, std::move(value));
}

// A variable of the request stays as it is.
void set_unless_asked(Environment& env, const Record& record, std::string_view name, std::string value) {
    if (!has_variable(record.env, name))
        set_variable(env, name, std::move(value));
}

// git reads settings of these variables behind those of its files (git-config(1), GIT_CONFIG_COUNT).
void add_git_routes(Environment& env, const Record& record, const std::vector<const EgressRoute*>& routes) {
    if (has_variable(record.env, "GIT_CONFIG_COUNT"))
        return;
    std::size_t count = 0;
    for (const EgressRoute* const route : routes) {
        if (!route->git)
            continue;
        const std::string number = std::to_string(count++);
        set_variable(env, "GIT_CONFIG_KEY_" + number,
                     "url." + std::string(k_routes_url) + route->name + "/.insteadOf");
        set_variable(env, "GIT_CONFIG_VALUE_" + number, route->upstream + '/');
    }
    if (count > 0)
        set_variable(env, "GIT_CONFIG_COUNT", std::to_string(count));
}

void add_routes(Environment& env, const Record& record, const std::vector<EgressRoute>& defaults) {
    std::vector<const EgressRoute*> routes;
    for (const auto* const list : {&record.egress.routes, &defaults}) {
        for (const EgressRoute& route : *list) {
            const bool is_taken = std::ranges::any_of(
                routes, [&](const EgressRoute* other) { return other->name == route.name; });
            if (!is_taken)
                routes.push_back(&route);
        }
    }
    for (const EgressRoute* const route : routes) {
        for (const ApiRoute& api : k_api_routes) {
            if (route->name != api.name)
                continue;
            const bool has_version = route->upstream.ends_with(api.version);
            set_unless_asked(
                env, record, api.base_url,
                std::string(k_routes_url) + route->name + std::string(has_version ? "" : api.version));
            set_unless_asked(env, record, api.key, std::string(k_placeholder_key));
        }
    }
    add_git_routes(env, record, routes);
}

}  // namespace

Environment pick_host_env(const char* const* environ_block) {
    Environment picked;
    for (const char* const* entry = environ_block; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const auto equals = text.find('=');
        if (equals != std::string_view::npos && contains(k_passed_through, text.substr(0, equals)))
            picked.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return picked;
}

base::Result<void> check_env(const Environment& wanted) {
    if (wanted.size() > base::k_max_env_entries)
        return Error(Errc::invalid_env,
                     "env has more than " + std::to_string(base::k_max_env_entries) + " variables");
    std::size_t bytes = 0;
    std::set<std::string_view> seen;
    for (const auto& [name, value] : wanted) {
        if (!is_name(name))
            return Error(Errc::invalid_env, "env has a name that is not of the form [A-Za-z_][A-Za-z0-9_]*");
        if (name.starts_with("LD_"))
            return Error(Errc::invalid_env, name + " is refused: LD_* would change how programs are loaded");
        const bool is_set = (contains(k_passed_through, name) && name != k_lang) ||
                            contains(base::k_injected_variables, name) || contains(k_also_injected, name);
        if (is_set)
            return Error(Errc::invalid_env, name + " is set by the server and cannot be overridden");
        if (value.find('\0') != std::string::npos)
            return Error(Errc::invalid_env, "the value of " + name + " holds a NUL byte");
        if (!seen.insert(name).second)
            return Error(Errc::invalid_env, name + " is given twice");
        bytes += name.size() + value.size() + 2;
    }
    if (bytes > base::k_max_env_bytes)
        return Error(Errc::invalid_env,
                     "env is larger than " + std::to_string(base::k_max_env_bytes) + " bytes");
    return {};
}

Environment compose_env(const Environment& host, const Record& record,
                        const std::vector<EgressRoute>& defaults) {
    Environment env = host;
    std::erase_if(env, [&](const auto& variable) { return has_variable(record.env, variable.first); });
    env.emplace_back("HOME", base::k_inner_workspace);
    for (const std::string prefix : {"ASH_", "ATOLL_"}) {
        env.emplace_back(prefix + "BRIDGE_SOCKET", base::k_inner_bridge_socket);
        env.emplace_back(prefix + "AGENT_DIR", base::k_inner_agent_dir);
        env.emplace_back(prefix + "WORKSPACE_DIR", base::k_inner_workspace);
        env.emplace_back(prefix + "SANDBOX_ID", record.id);
        env.emplace_back(prefix + "SESSION_ID", record.conversation_id);
    }
    if (record.network == NetworkMode::egress) {
        add_egress_variables(env, record.env);
        add_routes(env, record, defaults);
    }
    env.insert(env.end(), record.env.begin(), record.env.end());
    return env;
}

Environment compose_bare_env(const Environment& host) {
    Environment env;
    for (const auto& [name, value] : host) {
        if (name == "PATH" || name == "LANG")
            env.emplace_back(name, value);
    }
    env.emplace_back("HOME", "/tmp");
    return env;
}

}  // namespace atl::sandbox
