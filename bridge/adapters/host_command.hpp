// The commands that the guest writes to an agent, taken apart (docs/agents.md). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl::adapter {

struct HostCommand {
    enum class Kind : std::uint8_t { query, interrupt, permission, resume, shutdown, unknown };

    Kind kind = Kind::unknown;
    std::string turn;
    std::string prompt;                    // of a query
    std::string permission;                // of a permission: the id of the request that it answers
    std::optional<std::string> option_id;  // of a permission: the choice; none: cancelled
    std::string past;                      // of a resume: the turns so far as text; empty: there are none
};

/// Nothing where the line is no JSON object.
std::optional<HostCommand> parse_host_command(std::string_view line);

}  // namespace atl::adapter
