#include "core/conversation/types.hpp"

#include <array>
#include <charconv>

namespace atl::conversation {
namespace {

struct Name {
    EventType type;
    std::string_view text;
    enum class Writer { agent, server } writer;
};

constexpr std::array<Name, 28> k_names = {{
    {EventType::session_start, "session_start", Name::Writer::server},
    {EventType::text_delta, "text_delta", Name::Writer::agent},
    {EventType::thinking_delta, "thinking_delta", Name::Writer::agent},
    {EventType::tool_use, "tool_use", Name::Writer::agent},
    {EventType::tool_result, "tool_result", Name::Writer::agent},
    {EventType::message, "message", Name::Writer::agent},
    {EventType::turn_complete, "turn_complete", Name::Writer::agent},
    {EventType::error, "error", Name::Writer::agent},
    {EventType::done, "done", Name::Writer::agent},
    {EventType::sandbox_ready, "sandbox_ready", Name::Writer::server},
    {EventType::sandbox_paused, "sandbox_paused", Name::Writer::server},
    {EventType::sandbox_resumed, "sandbox_resumed", Name::Writer::server},
    {EventType::sandbox_terminated, "sandbox_terminated", Name::Writer::server},
    {EventType::output_truncated, "output_truncated", Name::Writer::server},
    {EventType::resource_warning, "resource_warning", Name::Writer::server},
    {EventType::port_opened, "port_opened", Name::Writer::server},
    {EventType::port_closed, "port_closed", Name::Writer::server},
    {EventType::turn_start, "turn_start", Name::Writer::server},
    {EventType::files_changed, "files_changed", Name::Writer::server},
    {EventType::tool_progress, "tool_progress", Name::Writer::server},
    {EventType::preview_changed, "preview_changed", Name::Writer::server},
    {EventType::egress_denied, "egress_denied", Name::Writer::server},
    {EventType::egress_closed, "egress_closed", Name::Writer::server},
    {EventType::egress_request, "egress_request", Name::Writer::server},
    {EventType::egress_resolved, "egress_resolved", Name::Writer::server},
    {EventType::permission_request, "permission_request", Name::Writer::agent},
    {EventType::permission_resolved, "permission_resolved", Name::Writer::server},
    {EventType::plan, "plan", Name::Writer::agent},
}};

void append_number(std::string& out, std::uint64_t number) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    out.append(digits.data(), end);
}

}  // namespace

std::string_view to_string(Status status) noexcept {
    switch (status) {
        case Status::starting:
            return "starting";
        case Status::active:
            return "active";
        case Status::paused:
            return "paused";
        case Status::ended:
            return "ended";
        case Status::error:
            return "error";
    }
    return "error";
}

std::string_view to_string(PauseMode mode) noexcept {
    return mode == PauseMode::warm ? "warm" : "cold";
}

std::optional<Status> parse_status(std::string_view text) noexcept {
    for (const auto status :
         {Status::starting, Status::active, Status::paused, Status::ended, Status::error}) {
        if (to_string(status) == text)
            return status;
    }
    return std::nullopt;
}

std::string_view to_string(PauseReason reason) noexcept {
    switch (reason) {
        case PauseReason::none:
            return "";
        case PauseReason::user:
            return "user";
        case PauseReason::idle:
            return "idle";
        case PauseReason::oom:
            return "oom";
        case PauseReason::disk:
            return "disk";
        case PauseReason::crash:
            return "crash";
        case PauseReason::evicted:
            return "evicted";
        case PauseReason::server_restart:
            return "server_restart";
        case PauseReason::ttl:
            return "ttl";
    }
    return "";
}

std::string_view to_string(EventType type) noexcept {
    for (const Name& name : k_names) {
        if (name.type == type)
            return name.text;
    }
    return "error";
}

std::optional<EventType> agent_event_type(std::string_view text) noexcept {
    for (const Name& name : k_names) {
        if (name.text == text && name.writer == Name::Writer::agent)
            return name.type;
    }
    return std::nullopt;
}

std::string turn_name(std::uint64_t turn) {
    return "t" + std::to_string(turn);
}

EventPtr make_event(std::uint64_t seq, EventType type, base::WallTime at, std::uint64_t turn,
                    std::string_view data) {
    auto event = std::make_shared<Event>();
    event->seq = seq;
    event->type = type;
    event->turn = turn;
    std::string& json = event->json;
    json.reserve(data.size() + 128);
    json += "{\"seq\":";
    append_number(json, seq);
    json += ",\"type\":\"";
    json += to_string(type);
    json += "\",\"at\":\"";
    // Events come in bursts: many share a millisecond. The loop has one thread.
    static base::WallTime s_at;
    static std::string s_text = base::rfc3339(s_at);
    if (at != s_at) {
        s_at = at;
        s_text = base::rfc3339(at);
    }
    json += s_text;
    json += "\",\"turn\":";
    if (turn == 0) {
        json += "null";
    } else {
        json += "\"t";
        append_number(json, turn);
        json += '"';
    }
    json += ",\"data\":";
    json += data;
    json += '}';
    return event;
}

std::optional<base::WallTime> event_time(std::string_view json) noexcept {
    // No name or value before it has this in it.
    constexpr std::string_view k_name = "\"at\":\"";
    const std::size_t at = json.find(k_name);
    if (at == std::string_view::npos)
        return std::nullopt;
    const std::string_view text = json.substr(at + k_name.size());
    return base::parse_rfc3339(text.substr(0, text.find('"')));
}

std::string_view start_content(const Event& turn_start) noexcept {
    // The content is the last member of the data, which is the last member of the event. No quote within
    // another member's text is unescaped.
    constexpr std::string_view k_name = "\"content\":";
    constexpr std::string_view k_end = "}}";
    const std::string_view json = turn_start.json;
    const std::size_t at = json.find(k_name, json.find("\"data\":{"));
    if (turn_start.type != EventType::turn_start || at == std::string_view::npos)
        return "\"\"";
    const std::size_t begin = at + k_name.size();
    return json.substr(begin, json.size() - k_end.size() - begin);
}

}  // namespace atl::conversation
