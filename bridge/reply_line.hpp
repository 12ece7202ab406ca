// The lines of the guest to the host apart from events: replies, and reports on the control stream.
// Pure; no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace atl::bridge {

inline constexpr std::uint64_t k_most_pids = 1U << 22U;  // proc(5), pid_max

struct ReplyLine {
    bool ok = false;
    std::string error;  // the guest's words: UTF-8, cut, not escaped; empty if ok
    std::string code;   // of a refusal, as the guest wrote it
    std::uint64_t pid = 0;
    std::uint64_t from = 0;  // of attach
    bool terminal = false;   // of attach
};

/// {"ok":true} or {"ok":false,"error":"…"}, with `code`, `pid`, `from` or `terminal` if there is
/// one; nothing for anything else.
std::optional<ReplyLine> parse_reply_line(std::string_view line);

/// The error for the `code` of a refused operation: bridge_failed where it is no word of bridge::refusal.
base::Errc errc_of(std::string_view code);

/// The `detail`, as ReplyLine::error, of {"ev":"agent_exit","detail":"…"}; nothing for anything else.
std::optional<std::string> parse_agent_exit_line(std::string_view line);

/// The ports of {"ev":"ports","listening":[5173]}: each between 1 and 65535, at most base::k_max_told_ports,
/// each larger than the one before, without those that are the server's own; nothing for anything else.
std::optional<std::vector<std::uint16_t>> parse_ports_line(std::string_view line);

}  // namespace atl::bridge
