// The guest protocol: the words and bounds that host and guest must agree on, and the encoders of both.
// One Unix stream connection an operation; its first line is a JSON object with `cmd`. After `start` the
// connection stays open as the control stream of the generation, which tells each end of an agent; after
// `query` come event lines until `done`; every other command gets one JSON reply, behind which `exec` goes on
// in frames (frame.hpp) and `dial` as the bytes of a connection. Header-only: the guest links nothing of the
// host's. Not here: sockets (stream.hpp, guest/connection.hpp) and parsing (json_scan.hpp, event_line.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/json_text.hpp"
#include "core/base/limits.hpp"

namespace atl::bridge {

namespace cmd {
inline constexpr std::string_view start = "start";
inline constexpr std::string_view agent = "agent";
inline constexpr std::string_view query = "query";
inline constexpr std::string_view interrupt = "interrupt";
inline constexpr std::string_view shutdown = "shutdown";
inline constexpr std::string_view exec = "exec";
inline constexpr std::string_view dial = "dial";
}  // namespace cmd

/// `kind` of the agent in a start command; in an agent command it is not none.
namespace agent_kind {
inline constexpr std::string_view shell = "shell";
inline constexpr std::string_view echo = "echo";
inline constexpr std::string_view command = "command";
inline constexpr std::string_view none = "none";
}  // namespace agent_kind

/// `code` of a refusal, where it makes a difference to the host.
namespace refusal {
inline constexpr std::string_view invalid = "invalid";  // what was asked for is not of the form, or not there
inline constexpr std::string_view busy = "busy";        // no room for more now
inline constexpr std::string_view no_listener = "no_listener";  // dial: the port does not answer
}  // namespace refusal

namespace ev {
inline constexpr std::string_view ready = "ready";            // an agent, once, before its first turn
inline constexpr std::string_view done = "done";              // an agent, ends a turn
inline constexpr std::string_view agent_exit = "agent_exit";  // the guest, on the control stream
}  // namespace ev

/// Everything an agent may say during a turn.
inline constexpr std::array<std::string_view, 8> k_turn_events = {
    "text_delta", "message", "done", "error", "thinking_delta", "tool_use", "tool_result", "turn_complete"};

// Bounds. A message of k_max_body_bytes grows at most sixfold when its control characters are escaped.
inline constexpr std::size_t k_max_command_line_bytes = 8UL * 1024 * 1024;
static_assert(6 * base::k_max_body_bytes + base::k_max_env_bytes < k_max_command_line_bytes);
// Ports of the sandbox's loopback that belong to the server: its proxy and its routes with credentials.
inline constexpr std::array<std::uint16_t, 2> k_undialled_ports = {3128, 3129};
// Text that one text_delta of a built-in agent carries, before escaping. Repair to UTF-8 grows it at most
// threefold first, and the replacement character is not escaped.
inline constexpr std::size_t k_max_delta_bytes = 32UL * 1024;
static_assert(6 * k_max_delta_bytes + 1024 < base::k_max_event_line_bytes);

/// {"cmd":NAME,"turn":TURN}: interrupt and, without a turn, shutdown.
inline std::string encode_command(std::string_view name, std::string_view turn = {}) {
    std::string line = "{\"cmd\":";
    base::append_json_string(line, name);
    if (!turn.empty()) {
        line += ",\"turn\":";
        base::append_json_string(line, turn);
    }
    line += "}\n";
    return line;
}

/// The command that opens a turn. `options` is the text of a JSON object; empty means {}.
inline std::string encode_query(std::string_view turn, std::string_view prompt, std::string_view options) {
    std::string line;
    line.reserve(64 + turn.size() + prompt.size() + prompt.size() / 8 + options.size());
    line += "{\"cmd\":\"query\",\"turn\":";
    base::append_json_string(line, turn);
    line += ",\"prompt\":";
    base::append_json_string(line, prompt);
    line += ",\"options\":";
    const std::size_t at = line.size();
    line += options.empty() ? std::string_view("{}") : options;
    // A newline in JSON text can only be white space between tokens.
    std::replace(line.begin() + static_cast<std::ptrdiff_t>(at), line.end(), '\n', ' ');
    line += "}\n";
    return line;
}

inline constexpr std::string_view k_reply_ok = "{\"ok\":true}\n";

/// `code` is a word of bridge::refusal, or empty.
inline std::string encode_refusal(std::string_view error, std::string_view code = {}) {
    std::string line = "{\"ok\":false,\"error\":";
    base::append_json_string(line, error);
    if (!code.empty()) {
        line += ",\"code\":";
        base::append_json_string(line, code);
    }
    line += "}\n";
    return line;
}

/// The good reply to exec: frames follow.
inline std::string encode_started(long pid) {
    return "{\"ok\":true,\"pid\":" + std::to_string(pid) + "}\n";
}

inline constexpr std::string_view k_done_line = "{\"ev\":\"done\",\"data\":{}}\n";

/// Appends `text` (UTF-8) as text_delta events of at most k_max_delta_bytes, cut between characters.
inline void append_text_deltas(std::string& out, std::string_view text) {
    while (!text.empty()) {
        std::size_t size = std::min(text.size(), k_max_delta_bytes);
        while (size < text.size() && size > 1 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80)
            --size;
        out += "{\"ev\":\"text_delta\",\"data\":{\"delta\":";
        base::append_json_string(out, text.substr(0, size));
        out += "}}\n";
        text.remove_prefix(size);
    }
}

/// An error event as the guest writes it on behalf of an agent.
inline std::string encode_error_event(std::string_view code, std::string_view message) {
    std::string line = "{\"ev\":\"error\",\"data\":{\"code\":";
    base::append_json_string(line, code);
    line += ",\"message\":";
    base::append_json_string(line, message);
    line += "}}\n";
    return line;
}

inline std::string encode_agent_exit(std::string_view detail) {
    std::string line = "{\"ev\":\"agent_exit\",\"detail\":";
    base::append_json_string(line, detail);
    line += "}\n";
    return line;
}

}  // namespace atl::bridge
