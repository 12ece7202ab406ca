// The form that a line of an agent must have. The host lets events through by it, and the guest must see the
// same end of a turn. Header only: the guest is a program of its own. Pure; allocates for escapes and
// refusals only.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "bridge/event_shape.hpp"
#include "bridge/json_scan.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/guest_limits.hpp"
#include "core/plain/utf8.hpp"

namespace atl::bridge {

/// The members of an event, or what is wrong with it.
struct ScannedEvent {
    std::string_view name;  // static; empty with a refusal
    std::string_view data;  // of the line, or "{}"
    std::string refusal;    // what is wrong; of the line it holds the beginning of a name at most
    /// The form that the data of this event must have; empty where the line is no known event at all.
    std::string_view wanted_data;
};

namespace detail {

/// Collects `ev` and `data`; stops at the first thing that no event may have.
struct EventVisitor : ObjectVisitor {
    const EventShape* shape = nullptr;
    std::string_view data;
    SeenMembers members;
    std::string refusal;

    bool refuse(std::string why) {
        refusal = std::move(why);
        return false;
    }
    /// A member that is neither a string `ev` nor an object `data` may not bear one of these names.
    bool misplaced(const std::string& key) {
        if (key == "ev")
            return refuse("`ev` is not a string");
        return key != "data" || refuse("`data` is not an object");
    }
    bool on_string(const std::string& key, const std::string& value) {
        if (key != "ev")
            return misplaced(key);
        if (shape != nullptr)
            return refuse("`ev` twice in one event");
        for (const EventShape& known : k_event_shapes)
            if (known.event == value)
                shape = &known;
        return shape != nullptr ||
               refuse("`" + base::excerpt(value, base::k_quoted_name_bytes) + "` is no event of an agent");
    }
    bool on_object(const std::string& key, std::string_view span) {
        if (key != "data")
            return misplaced(key);
        if (!data.empty())
            return refuse("`data` twice in one event");
        data = span;
        return true;
    }
    bool enters(const std::string& key) const { return key == "data"; }
    bool on_inner(const std::string& name, JsonKind kind, std::string_view text) {
        members.see(name, kind, text);
        return true;
    }
    bool on_bool(const std::string& key, bool) { return misplaced(key); }
    bool on_array(const std::string& key, std::string_view) { return misplaced(key); }
    bool on_unsigned(const std::string& key, std::uint64_t) { return misplaced(key); }
    bool on_other(const std::string& key, std::string_view) { return misplaced(key); }
};

inline bool has_control_character(std::string_view line) {
    bool found = false;
    for (const char c : line)
        found |= static_cast<unsigned char>(c) < 0x20;
    return found;
}

/// Empty: none.
inline std::string refusal_of(Scan scan, EventVisitor& visitor) {
    switch (scan) {
        case Scan::stopped:
            return std::move(visitor.refusal);
        case Scan::malformed:
            return "a line that is not valid JSON in UTF-8";
        case Scan::too_deep:
            return "JSON nested too deep";
        case Scan::no_object:
            return "a line that is not a JSON object";
        case Scan::complete:
            break;
    }
    if (visitor.shape == nullptr)
        return "an event without `ev`";
    const SeenMembers::Fault fault = visitor.members.fault(*visitor.shape);
    const bool needs_data = visitor.shape->event != ev::done;
    if (!visitor.data.empty() && fault.member.empty())
        return {};
    const std::string event = "`" + std::string(visitor.shape->event) + "`";
    if (visitor.data.empty())
        return needs_data ? event + " without `data`" : std::string();
    return "`" + std::string(fault.member) + "` of " + event + " " + std::string(fault.what) +
           std::string(fault.kind_is);
}

}  // namespace detail

/// Checks {"ev":NAME,"data":{…}}: well-formed JSON in UTF-8 with finite numbers, no raw control character,
/// NAME and the members of `data` as k_event_shapes (event_shape.hpp) has them, `data` an object nested at
/// most base::k_max_event_depth deep, neither twice. `data` may be missing for `done` only. Other members
/// are checked and ignored; a carriage return before the newline is allowed.
inline ScannedEvent scan_event(std::string_view line) {
    if (line.ends_with('\r'))
        line.remove_suffix(1);
    // Also what keeps a NUL from the lexer, and a carriage return out of text/event-stream.
    if (detail::has_control_character(line))
        return {{}, {}, "a raw control character in an event", {}};
    detail::EventVisitor visitor;
    const Scan scan = scan_object(line, base::k_max_event_depth + 1, visitor);
    std::string refusal = detail::refusal_of(scan, visitor);
    const std::string_view wanted = visitor.shape != nullptr ? visitor.shape->data : std::string_view();
    if (!refusal.empty())
        return {{}, {}, std::move(refusal), wanted};
    return {visitor.shape->event, visitor.data.empty() ? std::string_view("{}") : visitor.data, {}, wanted};
}

}  // namespace atl::bridge
