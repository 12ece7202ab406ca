#include "bridge/guest/command.hpp"

#include "bridge/json_scan.hpp"
#include "core/plain/guest_limits.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_max_command_depth = base::k_max_event_depth + 1;

struct CommandVisitor : bridge::ObjectVisitor {
    Command command;

    bool on_string(const std::string& key, std::string& value) {
        if (key == "cmd")
            command.name = std::move(value);
        else if (key == "turn")
            command.turn = std::move(value);
        else if (key == "prompt")
            command.prompt = std::move(value);
        return true;
    }
    bool on_bool(const std::string& key, bool value) {
        if (key == "ports")
            command.with_ports = value;
        return true;
    }
    bool on_object(const std::string& key, std::string_view span) {
        if (key == "agent")
            command.agent = span;
        return true;
    }
};

struct AgentVisitor : bridge::ObjectVisitor {
    AgentChoice choice;

    bool on_string(const std::string& key, std::string& value) {
        if (key == "kind")
            choice.kind = std::move(value);
        return true;
    }
    bool on_object(const std::string& key, std::string_view span) {
        if (key == "resume")
            choice.resume = span;
        return true;
    }
    bool on_array(const std::string& key, std::string_view span) {
        if (key != "argv")
            return true;
        const nlohmann::json list = nlohmann::json::parse(span, nullptr, false);
        for (const nlohmann::json& item : list) {
            if (!item.is_string())
                return false;
            choice.argv.push_back(item.get<std::string>());
        }
        return true;
    }
};

struct EventNameVisitor : bridge::ObjectVisitor {
    std::string name;

    bool on_string(const std::string& key, std::string& value) {
        if (key != "ev")
            return true;
        name = std::move(value);
        return false;
    }
};

}  // namespace

std::optional<Command> parse_command(std::string_view line) {
    CommandVisitor visitor;
    if (bridge::scan_object(line, k_max_command_depth, visitor) != bridge::Scan::complete ||
        visitor.command.name.empty())
        return std::nullopt;
    visitor.command.line = line;
    return std::move(visitor.command);
}

std::optional<AgentChoice> parse_agent(std::string_view text) {
    AgentVisitor visitor;
    if (bridge::scan_object(text, k_max_command_depth, visitor) != bridge::Scan::complete ||
        visitor.choice.kind.empty())
        return std::nullopt;
    return std::move(visitor.choice);
}

std::string event_name(std::string_view line) {
    EventNameVisitor visitor;
    // A line may be a megabyte of brackets: depth is the host's to judge, here it only costs a bit a level.
    if (bridge::scan_object(line, line.size(), visitor) != bridge::Scan::stopped)
        return {};
    return std::move(visitor.name);
}

}  // namespace atl::guest
