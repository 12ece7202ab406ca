// What the guest says to the host apart from events: replies, and what it reports on the control stream.
// Pure; no I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace atl::bridge {

struct ReplyLine {
    bool ok = false;
    std::string error;  // escaped, safe to show; empty if ok
};

/// {"ok":true} or {"ok":false,"error":"…"}; nothing for anything else.
std::optional<ReplyLine> parse_reply_line(std::string_view line);

/// The `detail`, escaped, of {"ev":"agent_exit","detail":"…"}; nothing for anything else.
std::optional<std::string> parse_agent_exit_line(std::string_view line);

}  // namespace atl::bridge
