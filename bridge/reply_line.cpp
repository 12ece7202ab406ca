#include "bridge/reply_line.hpp"

#include "bridge/json_scan.hpp"
#include "bridge/protocol.hpp"
#include "core/base/log.hpp"

namespace atl::bridge {
namespace {

/// Replies are flat; room for what later commands nest.
constexpr std::size_t k_max_reply_depth = 8;

struct ReplyVisitor : ObjectVisitor {
    std::optional<bool> ok;
    std::string error;
    std::string event;
    std::string detail;
    std::string code;
    std::uint64_t pid = 0;

    bool on_bool(const std::string& key, bool value) {
        if (key == "ok")
            ok = value;
        return true;
    }
    bool on_unsigned(const std::string& key, std::uint64_t value) {
        if (key == "pid")
            pid = value;
        return true;
    }
    bool on_string(const std::string& key, std::string& value) {
        if (key == "error")
            error = base::escaped(value);
        else if (key == "ev")
            event = std::move(value);
        else if (key == "detail")
            detail = base::escaped(value);
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
        return ReplyLine{true, {}, {}, visitor.pid};
    return ReplyLine{false, std::move(visitor.error), std::move(visitor.code), 0};
}

base::Errc errc_of(std::string_view code) {
    if (code == refusal::invalid)
        return base::Errc::invalid_field;
    if (code == refusal::busy)
        return base::Errc::capacity;
    return base::Errc::sandbox_failed;
}

std::optional<std::string> parse_agent_exit_line(std::string_view line) {
    ReplyVisitor visitor;
    if (scan_object(line, k_max_reply_depth, visitor) != Scan::complete || visitor.event != ev::agent_exit)
        return std::nullopt;
    return std::move(visitor.detail);
}

}  // namespace atl::bridge
