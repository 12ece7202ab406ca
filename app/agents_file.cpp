#include "app/agents_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "http/api/route_form.hpp"

namespace atl::app {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using sandbox::AgentSpec;

bool is_name(const std::string& name) {
    return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    });
}

// The member `routes` of `object`; a route whose variable is not set is not there.
Result<std::vector<sandbox::EgressRoute>> routes_of(const nlohmann::json& object) {
    std::vector<sandbox::EgressRoute> routes;
    if (!object.contains("routes"))
        return routes;
    const http::RouteVariables variables = [](const std::string& name) -> std::optional<std::string> {
        const char* const value = std::getenv(name.c_str());
        return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
    };
    const nlohmann::json alone{{"routes", object["routes"]}};
    http::ObjectReader reader(alone);
    routes = http::read_routes(reader, &variables);
    if (auto finished = reader.finish(); finished.has_error())
        return finished.error();
    return routes;
}

Result<AgentSpec> read_agent(const nlohmann::json& entry) {
    const auto invalid = [](const std::string& what) { return Error(Errc::invalid_field, what); };
    if (!entry.is_object())
        return invalid("an agent is an object with name, argv, dir and routes");
    for (const auto& [key, value] : entry.items()) {
        if (key != "name" && key != "argv" && key != "dir" && key != "routes")
            return invalid("unknown field \"" + key + "\" in an agent");
    }
    AgentSpec agent;
    agent.kind = AgentSpec::Kind::command;
    if (!entry.contains("name") || !entry["name"].is_string() || !is_name(entry["name"].get<std::string>()))
        return invalid("an agent's name is 1 to 64 of a-z 0-9 - _");
    agent.name = entry["name"].get<std::string>();
    if (!entry.contains("argv") || !entry["argv"].is_array() || entry["argv"].empty())
        return invalid("agent " + agent.name + ": argv is an array of at least one string");
    for (const auto& argument : entry["argv"]) {
        if (!argument.is_string() || argument.get<std::string>().find('\0') != std::string::npos)
            return invalid("agent " + agent.name + ": argv holds strings without NUL bytes");
        agent.argv.push_back(argument.get<std::string>());
    }
    auto routes = routes_of(entry);
    if (!routes)
        return invalid("agent " + agent.name + ": " + routes.error().detail());
    agent.routes = std::move(*routes);
    if (!entry.contains("dir"))
        return agent;
    if (!entry["dir"].is_string())
        return invalid("agent " + agent.name + ": dir is a string");
    const std::filesystem::path dir = entry["dir"].get<std::string>();
    std::error_code ignored;
    if (!dir.is_absolute() || !std::filesystem::is_directory(dir, ignored))
        return invalid("agent " + agent.name + ": dir " + dir.string() +
                       " is not an absolute path of a folder");
    agent.dir = dir;
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
    return {shell, echo};
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
    const auto routes = routes_of(json);
    if (!routes)
        return invalid(routes.error().detail());
    // An agent's own routes count before the routes of all agents.
    for (AgentSpec& agent : agents)
        agent.routes.insert(agent.routes.end(), routes->begin(), routes->end());
    return agents;
}

}  // namespace atl::app
