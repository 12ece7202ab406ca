#include "bridge/adapters/host_command.hpp"

#include <utility>

#include "bridge/adapters/json_value.hpp"
#include "bridge/protocol.hpp"

namespace atl::adapter {
namespace {

HostCommand::Kind kind_of(std::string_view name) {
    using Kind = HostCommand::Kind;
    static constexpr std::pair<std::string_view, Kind> k_kinds[] = {
        {bridge::cmd::query, Kind::query},           {bridge::cmd::interrupt, Kind::interrupt},
        {bridge::cmd::permission, Kind::permission}, {bridge::cmd::resume, Kind::resume},
        {bridge::cmd::shutdown, Kind::shutdown},
    };
    for (const auto& [known, kind] : k_kinds)
        if (known == name)
            return kind;
    return Kind::unknown;
}

/// The turns as a model reads them.
std::string past_of(const Json& command) {
    const Json* const turns = array_of(command, "turns");
    if (turns == nullptr || turns->empty())
        return {};
    std::string text =
        "The conversation so far, of which you have no memory; your files are as you left them:\n\n";
    for (const Json& turn : *turns) {
        text.append("User: ").append(text_of(turn, "content"));
        text.append("\nYou: ").append(text_of(turn, "text")).append("\n\n");
    }
    text += "The message to answer now:\n\n";
    return text;
}

}  // namespace

std::optional<HostCommand> parse_host_command(std::string_view line) {
    const std::optional<Json> json = parse_line(line);
    if (!json)
        return std::nullopt;
    HostCommand command;
    command.kind = kind_of(text_of(*json, "cmd"));
    command.turn = text_of(*json, "turn");
    command.prompt = text_of(*json, "prompt");
    command.permission = text_of(*json, "id");
    if (const Json* const option = member(*json, "optionId"); option != nullptr && option->is_string())
        command.option_id = text_of(*json, "optionId");
    if (command.kind == HostCommand::Kind::resume)
        command.past = past_of(*json);
    return command;
}

}  // namespace atl::adapter
