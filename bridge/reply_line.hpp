// What the guest says to the host apart from events: replies, and what it reports on the control stream.
// Pure; no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace atl::bridge {

struct ReplyLine {
    bool ok = false;
    std::string error;  // escaped, safe to show; empty if ok
    std::string code;   // of a refusal, as the guest wrote it
    std::uint64_t pid = 0;
};

/// {"ok":true} or {"ok":false,"error":"…"}, with `code` or `pid` if there is one; nothing for anything else.
std::optional<ReplyLine> parse_reply_line(std::string_view line);

/// What the `code` of a refused operation means: sandbox_failed where it is no word of bridge::refusal.
base::Errc errc_of(std::string_view code);

/// The `detail`, escaped, of {"ev":"agent_exit","detail":"…"}; nothing for anything else.
std::optional<std::string> parse_agent_exit_line(std::string_view line);

}  // namespace atl::bridge
