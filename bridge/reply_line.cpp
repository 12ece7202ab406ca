#include "bridge/reply_line.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "bridge/json_scan.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/preview_limits.hpp"
#include "core/plain/utf8.hpp"

namespace atl::bridge {
namespace {

/// Replies are flat; room for what later commands nest.
constexpr std::size_t k_max_reply_depth = 8;
/// A reason in the guest's or the agent's words is cut to so many bytes.
constexpr std::size_t k_max_told_bytes = 200;

struct ReplyVisitor : ObjectVisitor {
    std::optional<bool> ok;
    std::string error;
    std::string event;
    std::string detail;
    std::string code;
    std::optional<std::string_view> listening;
    std::uint64_t pid = 0;
    std::uint64_t from = 0;
    bool terminal = false;

    bool on_bool(const std::string& key, bool value) {
        if (key == "ok")
            ok = value;
        else if (key == "terminal")
            terminal = value;
        return true;
    }
    bool on_unsigned(const std::string& key, std::uint64_t value) {
        if (key == "pid")
            pid = value;
        else if (key == "from")
            from = value;
        return true;
    }
    bool on_array(const std::string& key, std::string_view span) {
        if (key == "listening")
            listening = span;
        return true;
    }
    bool on_string(const std::string& key, std::string& value) {
        if (key == "error")
            error = base::excerpt(value, k_max_told_bytes);
        else if (key == "ev")
            event = std::move(value);
        else if (key == "detail")
            detail = base::excerpt(value, k_max_told_bytes);
        else if (key == "code")
            code = std::move(value);
        return true;
    }
};

}  // namespace

std::optional<ReplyLine> parse_reply_line(std::string_view line) {
    ReplyVisitor visitor;
    if (scan_object(line, k_max_reply_depth, visitor) != Scan::complete || !visitor.ok)
        return std::nullopt;
    if (*visitor.ok)
        return ReplyLine{true, {}, {}, visitor.pid, visitor.from, visitor.terminal};
    return ReplyLine{false, std::move(visitor.error), std::move(visitor.code)};
}

base::Errc errc_of(std::string_view code) {
    static constexpr std::pair<std::string_view, base::Errc> k_words[] = {
        {refusal::invalid, base::Errc::invalid_field},
        {refusal::cwd, base::Errc::invalid_cwd},
        {refusal::busy, base::Errc::capacity},
        {refusal::no_process, base::Errc::too_many_processes},
        {refusal::unknown, base::Errc::not_found},
        {refusal::ended, base::Errc::process_ended},
        {refusal::no_listener, base::Errc::sandbox_failed},
        {refusal::file_not_found, base::Errc::file_not_found},
        {refusal::already_exists, base::Errc::already_exists},
        {refusal::is_directory, base::Errc::is_directory},
        {refusal::not_a_directory, base::Errc::not_a_directory},
        {refusal::not_a_file, base::Errc::not_a_file},
        {refusal::directory_not_empty, base::Errc::directory_not_empty},
        {refusal::outside_workspace, base::Errc::outside_workspace},
        {refusal::invalid_path, base::Errc::invalid_path},
        {refusal::permission_denied, base::Errc::permission_denied},
        {refusal::file_changed, base::Errc::file_changed},
        {refusal::precondition_failed, base::Errc::precondition_failed},
        {refusal::disk_full, base::Errc::disk_full},
        {refusal::invalid_archive, base::Errc::invalid_archive},
    };
    for (const auto& [word, meaning] : k_words)
        if (word == code)
            return meaning;
    return base::Errc::bridge_failed;
}

std::optional<std::string> parse_agent_exit_line(std::string_view line) {
    ReplyVisitor visitor;
    if (scan_object(line, k_max_reply_depth, visitor) != Scan::complete || visitor.event != ev::agent_exit)
        return std::nullopt;
    return std::move(visitor.detail);
}

std::optional<std::vector<std::uint16_t>> parse_ports_line(std::string_view line) {
    ReplyVisitor visitor;
    if (scan_object(line, k_max_reply_depth, visitor) != Scan::complete || visitor.event != ev::ports ||
        !visitor.listening)
        return std::nullopt;
    std::string_view rest = *visitor.listening;
    rest = rest.substr(1, rest.size() - 2);
    std::vector<std::uint16_t> ports;
    std::uint16_t last = 0;
    while (!rest.empty()) {
        std::uint16_t port = 0;
        const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), port);
        const auto used = static_cast<std::size_t>(parsed.ptr - rest.data());
        if (parsed.ec != std::errc() || port <= last || ports.size() == base::k_max_told_ports ||
            base::is_reserved_port(port) ||
            (used < rest.size() && (rest[used] != ',' || used + 1 == rest.size())))
            return std::nullopt;
        last = port;
        ports.push_back(port);
        rest.remove_prefix(std::min(used + 1, rest.size()));
    }
    return ports;
}

}  // namespace atl::bridge
