// The guest protocol: the words and bounds that host and guest must agree on, and the encoders of both.
// Each operation has a Unix stream connection; its first line is a JSON object with `cmd`. After `start` the
// connection stays open as the control stream of the generation, which tells each end of an agent and, if
// asked to, the ports that are listened on; after `query` come event lines until `done`; every other command
// gets one JSON reply, before which `processes` has a line each, and behind which `exec` and `attach` go on
// in frames (frame.hpp) and `dial` as the bytes of a connection. Header-only: the guest links nothing of the
// host's. Not here: sockets (stream.hpp, guest/connection.hpp) and parsing (json_scan.hpp, event_line.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/plain/guest_limits.hpp"
#include "core/plain/json_text.hpp"

namespace atl::bridge {

namespace cmd {
inline constexpr std::string_view start = "start";
inline constexpr std::string_view agent = "agent";
inline constexpr std::string_view query = "query";
inline constexpr std::string_view interrupt = "interrupt";
inline constexpr std::string_view permission = "permission";
inline constexpr std::string_view resume = "resume";  // to a program that is the agent, from the guest alone
inline constexpr std::string_view shutdown = "shutdown";
inline constexpr std::string_view exec = "exec";
inline constexpr std::string_view dial = "dial";
inline constexpr std::string_view process = "process";
inline constexpr std::string_view processes = "processes";
inline constexpr std::string_view attach = "attach";
inline constexpr std::string_view control = "control";
// Calls: lines until the reply, then frames of output and an exit. A line without `ok` is a word that the
// guest is at work: `progress` has an object, `ready` asks for input, which comes as frames.
inline constexpr std::string_view file = "file";
inline constexpr std::string_view tool = "tool";
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
inline constexpr std::string_view cwd = "cwd";          // the working directory is none
inline constexpr std::string_view busy = "busy";        // no room for more now
inline constexpr std::string_view no_process = "no_process";    // the limit of processes allows no other one
inline constexpr std::string_view no_listener = "no_listener";  // dial: the port does not answer
inline constexpr std::string_view unknown = "unknown";          // there is none of that id
inline constexpr std::string_view ended = "ended";              // the process has ended
// The codes of files and tools are words of base::Errc.
inline constexpr std::string_view file_not_found = "file_not_found";
inline constexpr std::string_view already_exists = "already_exists";
inline constexpr std::string_view is_directory = "is_directory";
inline constexpr std::string_view not_a_directory = "not_a_directory";
inline constexpr std::string_view not_a_file = "not_a_file";
inline constexpr std::string_view directory_not_empty = "directory_not_empty";
inline constexpr std::string_view outside_workspace = "outside_workspace";
inline constexpr std::string_view invalid_path = "invalid_path";
inline constexpr std::string_view permission_denied = "permission_denied";
inline constexpr std::string_view file_changed = "file_changed";
inline constexpr std::string_view precondition_failed = "precondition_failed";
inline constexpr std::string_view disk_full = "disk_full";
inline constexpr std::string_view invalid_archive = "invalid_archive";
}  // namespace refusal

namespace ev {
inline constexpr std::string_view ready = "ready";            // an agent, once, before its first turn
inline constexpr std::string_view done = "done";              // an agent, ends a turn
inline constexpr std::string_view error = "error";            // an agent, or the guest for it
inline constexpr std::string_view agent_exit = "agent_exit";  // the guest, on the control stream
inline constexpr std::string_view ports = "ports";            // the same
}  // namespace ev

// Bounds. A message of k_max_body_bytes grows at most sixfold when its control characters are escaped.
inline constexpr std::size_t k_max_command_line_bytes = 8UL * 1024 * 1024;
static_assert(6 * base::k_max_body_bytes + base::k_max_env_bytes < k_max_command_line_bytes);
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

/// {"cmd":"permission","turn":TURN,"id":ID,"optionId":OPTION}; without an option it is cancelled.
inline std::string encode_permission(std::string_view turn, std::string_view id, std::string_view option_id) {
    std::string line = encode_command(cmd::permission, turn);
    line.replace(line.rfind('}'), std::string::npos, ",\"id\":");
    base::append_json_string(line, id);
    if (!option_id.empty()) {
        line += ",\"optionId\":";
        base::append_json_string(line, option_id);
    }
    line += "}\n";
    return line;
}

/// Says if the guest ends what earlier turns left running before the turn begins.
enum class LeftoverRule : std::uint8_t { keep, end };
/// The end of a query that asks for it. The agent gets the query without this member.
inline constexpr std::string_view k_end_leftovers = ",\"endLeftovers\":true}";

/// The command that opens a turn. `options` is the text of a JSON object; empty means {}.
inline std::string encode_query(std::string_view turn, std::string_view prompt, std::string_view options,
                                LeftoverRule leftovers = LeftoverRule::keep) {
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
    line += leftovers == LeftoverRule::end ? k_end_leftovers : std::string_view("}");
    line += '\n';
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

/// The good reply to attach: frames follow, and output goes on at byte `from`.
inline std::string encode_attached(long pid, std::uint64_t from, bool is_terminal) {
    return "{\"ok\":true,\"pid\":" + std::to_string(pid) + ",\"from\":" + std::to_string(from) +
           (is_terminal ? ",\"terminal\":true}\n" : "}\n");
}

inline constexpr std::string_view k_done_line = "{\"ev\":\"done\",\"data\":{}}\n";

/// Appends `text` (UTF-8) as text_delta events of at most k_max_delta_bytes, cut between characters. `stream`
/// is "stdout", "stderr" or empty: of no stream.
inline void append_text_deltas(std::string& out, std::string_view text, std::string_view stream = {}) {
    while (!text.empty()) {
        std::size_t size = std::min(text.size(), k_max_delta_bytes);
        while (size < text.size() && size > 1 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80)
            --size;
        out += "{\"ev\":\"text_delta\",\"data\":{\"delta\":";
        base::append_json_string(out, text.substr(0, size));
        if (!stream.empty())
            out.append(",\"stream\":\"").append(stream).append("\"");
        out += "}}\n";
        text.remove_prefix(size);
    }
}

/// A text_delta of the guest itself, which shows as the command's stderr. `text` is UTF-8.
inline std::string encode_notice(std::string_view text) {
    std::string line = "{\"ev\":\"text_delta\",\"data\":{\"delta\":";
    base::append_json_string(line, text);
    line += ",\"stream\":\"stderr\"}}\n";
    return line;
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

/// The end of a start command that asks for the ports that are listened on.
inline constexpr std::string_view k_with_ports = ",\"ports\":true}\n";

/// All ports that are listened on, at most base::k_max_told_ports, from the smallest to the largest.
inline std::string encode_ports(const std::vector<std::uint16_t>& ports) {
    std::string line = "{\"ev\":\"ports\",\"listening\":[";
    for (const std::uint16_t port : ports) {
        if (line.back() != '[')
            line += ',';
        line += std::to_string(port);
    }
    line += "]}\n";
    return line;
}

}  // namespace atl::bridge
