// The first line of a connection, taken apart.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl::guest {

struct Command {
    std::string name;  // `cmd`
    std::string turn;
    std::string prompt;
    std::string_view agent;   // of start: the text of an object, a view of the line
    bool with_ports = false;  // of start: the ports that are listened on are to be told
    std::string_view line;    // all of it, without the newline
};

/// Nothing if `line` is not a JSON object with a `cmd`. Members it does not know are left to the command.
std::optional<Command> parse_command(std::string_view line);

/// The agent that a start command asks for.
struct AgentChoice {
    std::string kind;
    std::vector<std::string> argv;
    std::string resume;  // of a program: the text of an object, its first line; empty: none
};

/// Nothing if `text` is not an object with a `kind`, or its `argv` is not an array of strings.
std::optional<AgentChoice> parse_agent(std::string_view text);

/// The value of the first top-level `ev` of a line, empty if there is none. Reads no further than that.
std::string event_name(std::string_view line);

}  // namespace atl::guest
