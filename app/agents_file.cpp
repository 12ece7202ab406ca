#include "app/agents_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "app/demo_agent.hpp"
#include "app/programs.hpp"
#include "core/plain/inner_paths.hpp"
#include "http/access/limit_ceilings.hpp"
#include "http/api/route_form.hpp"

namespace atl::app {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using sandbox::AgentSpec;

// An argument of a program has at most 128 KiB (execve(2), MAX_ARG_STRLEN), and a line to the guest more.
constexpr std::size_t k_max_recipe_bytes = 96UL * 1024;
constexpr std::size_t k_max_path_bytes = 4096;
constexpr std::size_t k_max_mode_bytes = 256;
constexpr std::size_t k_max_word_bytes = 32;
constexpr std::int64_t k_max_start_seconds = 600;

bool has_nul(const std::string& text) {
    return text.find('\0') != std::string::npos;
}

bool is_name(const std::string& name) {
    return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    });
}

// The member `routes` of `object`; a route whose variable is not set is not there, and `unset` has the first
// such variable.
Result<std::vector<sandbox::EgressRoute>> routes_of(const nlohmann::json& object, std::string& unset) {
    std::vector<sandbox::EgressRoute> routes;
    if (!object.contains("routes"))
        return routes;
    const http::RouteVariables variables = [&unset](const std::string& name) -> std::optional<std::string> {
        const char* const value = std::getenv(name.c_str());
        if (value != nullptr && *value != '\0')
            return std::string(value);
        if (unset.empty())
            unset = name;
        return std::nullopt;
    };
    const nlohmann::json alone{{"routes", object["routes"]}};
    http::ObjectReader reader(alone);
    routes = http::read_routes(reader, &variables);
    if (auto finished = reader.finish(); finished.has_error())
        return finished.error();
    return routes;
}

/// A member that is an object of strings.
std::map<std::string, std::string> read_texts(http::ObjectReader& reader, const char* name) {
    std::map<std::string, std::string> texts;
    const nlohmann::json* const object = reader.object(name);
    if (object == nullptr)
        return texts;
    for (const auto& [key, value] : object->items()) {
        if (!value.is_string() || has_nul(key) || has_nul(value.get<std::string>()))
            reader.fail(name, "an object of strings without NUL bytes");
        else
            texts.emplace(key, value.get<std::string>());
    }
    return texts;
}

std::vector<std::string> read_argv(http::ObjectReader& reader) {
    std::vector<std::string> argv;
    const nlohmann::json* const list = reader.any("argv");
    bool is_valid = list != nullptr && list->is_array() && !list->empty();
    for (const auto& argument : is_valid ? *list : nlohmann::json::array()) {
        is_valid = is_valid && argument.is_string() && !has_nul(argument.get<std::string>());
        if (is_valid)
            argv.push_back(argument.get<std::string>());
    }
    if (!is_valid)
        reader.fail("argv", "an array of at least one string, without NUL bytes");
    return argv;
}

/// Empty: the folder is not there.
std::optional<std::filesystem::path> read_dir(http::ObjectReader& reader, AgentSpec& agent) {
    const auto text = reader.string("dir", k_max_path_bytes);
    if (!text)
        return std::nullopt;
    const std::filesystem::path dir = *text;
    std::error_code ignored;
    if (dir.is_absolute() && std::filesystem::is_directory(dir, ignored))
        return dir;
    if (!dir.is_absolute() || agent.setup.empty())
        reader.fail("dir", "an absolute path of a folder; " + *text + " is none");
    // Users read it: it names no path of this host.
    agent.missing = "its folder is not there";
    return std::nullopt;
}

/// The name of a file in the state of an agent: below that folder, whatever it says.
bool is_state_file(const std::string& name) {
    const std::filesystem::path path = name;
    return !name.empty() && path.is_relative() && path.has_filename() &&
           std::none_of(path.begin(), path.end(),
                        [](const auto& part) { return part == ".." || part == "."; });
}

/// Says in `missing` that this host has not the program that `argv` begins with. A path outside `dir` is
/// taken as it is.
void look_for_program(AgentSpec& agent, const std::string& program) {
    namespace fs = std::filesystem;
    const std::string inner = std::string(base::k_inner_agent_dir) + "/";
    std::error_code ignored;
    if (!agent.missing.empty())
        return;
    if (program.starts_with(inner)) {
        const fs::path host = agent.dir ? *agent.dir / program.substr(inner.size()) : fs::path();
        if (!agent.dir || !fs::exists(host, ignored))
            agent.missing = "its program " + program + " is not there" +
                            (agent.dir ? " in its folder" : ": the agent has no `dir`");
    } else if (program.find('/') == std::string::npos && !fs::exists(find_program(program), ignored)) {
        agent.missing = "its program " + program + " is not in PATH";
    }
}

/// Text of the one argument of atoll-agent (bridge/adapters/recipe.hpp).
std::string recipe_of(const AgentSpec& agent, const std::string& mode,
                      const std::map<std::string, std::string>& env,
                      const std::map<std::string, std::string>& files) {
    return nlohmann::json{{"adapter", agent.adapter}, {"name", agent.name}, {"mode", mode},
                          {"argv", agent.argv},       {"env", env},         {"files", files}}
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

sandbox::PermissionPolicy read_policy(http::ObjectReader& reader) {
    const std::string word = reader.string("permissions", k_max_word_bytes).value_or("ask");
    if (word == "allow")
        return sandbox::PermissionPolicy::allow;
    if (word == "deny")
        return sandbox::PermissionPolicy::deny;
    if (word != "ask")
        reader.fail("permissions", "\"ask\", \"allow\" or \"deny\"");
    return sandbox::PermissionPolicy::ask;
}

/// Reads the adapter and its parts; an agent that needs atoll-agent gets it as its argv.
void read_recipe(http::ObjectReader& reader, AgentSpec& agent) {
    agent.adapter = reader.string("adapter", k_max_word_bytes).value_or("lines");
    if (agent.adapter != "lines" && agent.adapter != "acp" && agent.adapter != "stream-json")
        reader.fail("adapter", "\"lines\", \"acp\" or \"stream-json\"");
    const std::string mode = reader.string("mode", k_max_mode_bytes).value_or("");
    if (!mode.empty() && agent.adapter == "lines")
        reader.fail("mode", "absent for the adapter \"lines\"");
    const auto env = read_texts(reader, "env");
    for (const auto& [name, value] : env)
        if (name.empty() || name.find('=') != std::string::npos || name.starts_with("LD_"))
            reader.fail("env", "an object of variables, without LD_*");
    const auto files = read_texts(reader, "files");
    for (const auto& [name, text] : files)
        if (!is_state_file(name))
            reader.fail("files", "an object of texts by paths below the agent's state");
    agent.argv = read_argv(reader);
    if (reader.failed())
        return;
    look_for_program(agent, agent.argv[0]);
    if (agent.adapter == "lines" && env.empty() && files.empty())
        return;
    std::string recipe = recipe_of(agent, mode, env, files);
    if (recipe.size() > k_max_recipe_bytes)
        reader.fail("files", "so short that the agent has at most " + std::to_string(k_max_recipe_bytes) +
                                 " bytes as JSON");
    agent.argv = {base::k_inner_agent, std::move(recipe)};
}

Result<AgentSpec> read_agent(const nlohmann::json& entry) {
    const auto invalid = [](const std::string& what) { return Error(Errc::invalid_field, what); };
    if (!entry.is_object())
        return invalid("an agent is an object with name and argv");
    AgentSpec agent;
    agent.kind = AgentSpec::Kind::command;
    if (!entry.contains("name") || !entry["name"].is_string() || !is_name(entry["name"].get<std::string>()))
        return invalid("an agent's name is 1 to 64 of a-z 0-9 - _");
    agent.name = entry["name"].get<std::string>();
    http::ObjectReader reader(entry);
    reader.any("name");
    agent.setup = reader.string("setup", k_max_path_bytes).value_or("");
    agent.dir = read_dir(reader, agent);
    read_recipe(reader, agent);
    agent.permissions = read_policy(reader);
    if (const auto seconds = reader.integer("permissionTimeoutSeconds", {1, 86400}))
        agent.permission_timeout = std::chrono::seconds(*seconds);
    if (const auto seconds = reader.integer("startTimeoutSeconds", {1, k_max_start_seconds}))
        agent.start_timeout = std::chrono::seconds(*seconds);
    if (const nlohmann::json* const limits = reader.object("limits")) {
        http::ObjectReader inner(*limits, "limits.");
        agent.limits = http::read_limit_changes(inner);
        if (auto finished = inner.finish(); finished.has_error())
            reader.fail(finished.error());
    }
    reader.any("routes");
    if (auto finished = reader.finish(); finished.has_error())
        return invalid("agent " + agent.name + ": " + finished.error().detail());
    std::string unset;
    auto routes = routes_of(entry, unset);
    if (!routes)
        return invalid("agent " + agent.name + ": " + routes.error().detail());
    // An agent that cannot be used opens no way out.
    if (!agent.missing.empty())
        return agent;
    agent.needs_network = !routes->empty();
    agent.routes = std::move(*routes);
    if (!agent.needs_network)
        agent.unset = std::move(unset);
    return agent;
}

}  // namespace

std::vector<AgentSpec> built_in_agents() {
    AgentSpec shell;
    shell.name = "shell";
    shell.kind = AgentSpec::Kind::shell;
    AgentSpec echo;
    echo.name = "echo";
    echo.kind = AgentSpec::Kind::echo;
    // A module in the workspace must not take the place of one that it imports.
    const auto argv = nlohmann::json::array({"python3", "-I", "-c", k_demo_agent});
    const nlohmann::json demo{{"name", "demo"}, {"argv", argv}, {"setup", "apt-get install python3"}};
    return {shell, echo, read_agent(demo).value()};
}

std::vector<AgentSpec> ready_made_agents(const std::filesystem::path& folder) {
    auto agents = built_in_agents();
    const auto built_in = static_cast<std::ptrdiff_t>(agents.size());
    for (nlohmann::json recipe : nlohmann::json::parse(recipe_texts())) {
        const auto name = recipe["name"].get<std::string>();
        recipe["dir"] = (folder / name).string();
        recipe["setup"] = "scripts/setup --agents " + name;
        agents.push_back(read_agent(recipe).value());
    }
    std::sort(agents.begin() + built_in, agents.end(),
              [](const AgentSpec& a, const AgentSpec& b) { return a.name < b.name; });
    return agents;
}

Result<std::vector<AgentSpec>> read_agents(const std::filesystem::path& file) {
    const auto invalid = [&](const std::string& what) {
        return Error(Errc::invalid_field, "agents file " + file.string() + ": " + what);
    };
    std::ifstream stream(file);
    if (!stream)
        return invalid("cannot be read");
    const auto json = nlohmann::json::parse(stream, nullptr, false);
    const bool has_routes = json.is_object() && json.contains("routes");
    if (!json.is_object() || json.size() != (has_routes ? 2 : 1) || !json.contains("agents") ||
        !json["agents"].is_array())
        return invalid("it is not a JSON object of the form {\"agents\": [...], \"routes\": [...]}");
    auto agents = built_in_agents();
    for (const auto& entry : json["agents"]) {
        auto agent = read_agent(entry);
        if (!agent)
            return invalid(agent.error().detail());
        const bool taken = std::any_of(agents.begin(), agents.end(),
                                       [&](const AgentSpec& other) { return other.name == agent->name; });
        if (taken)
            return invalid("the name " + agent->name + " is taken");
        agents.push_back(std::move(*agent));
    }
    std::string unset;
    const auto routes = routes_of(json, unset);
    if (!routes)
        return invalid(routes.error().detail());
    // An agent's own routes count before the routes of all agents.
    for (AgentSpec& agent : agents)
        if (agent.missing.empty())
            agent.routes.insert(agent.routes.end(), routes->begin(), routes->end());
    return agents;
}

}  // namespace atl::app
