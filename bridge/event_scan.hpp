// What an agent's line must be, for the host, which lets events through by it, and for the guest, which must
// see the same end of a turn. Header only: the guest is a program of its own. Pure; allocates for escapes
// only.
#pragma once

#include <string>
#include <string_view>

#include "bridge/json_scan.hpp"
#include "bridge/protocol.hpp"
#include "core/base/limits.hpp"

namespace atl::bridge {

/// The members of an event, or what is wrong with it.
struct ScannedEvent {
    std::string_view name;          // static; empty with a refusal
    std::string_view data;          // of the line, or "{}"
    const char* refusal = nullptr;  // a sentence that quotes nothing of the line
};

namespace detail {

/// Collects `ev` and `data`; stops at the first thing that no event may have.
struct EventVisitor : ObjectVisitor {
    std::string_view name;
    std::string_view data;
    const char* refusal = nullptr;

    bool refuse(const char* why) {
        refusal = why;
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
        if (!name.empty())
            return refuse("`ev` twice in one event");
        for (const std::string_view known : k_turn_events)
            if (known == value)
                name = known;
        return !name.empty() || refuse("an event name that an agent may not use");
    }
    bool on_object(const std::string& key, std::string_view span) {
        if (key != "data")
            return misplaced(key);
        if (!data.empty())
            return refuse("`data` twice in one event");
        data = span;
        return true;
    }
    bool on_bool(const std::string& key, bool) { return misplaced(key); }
    bool on_array(const std::string& key, std::string_view) { return misplaced(key); }
    bool on_unsigned(const std::string& key, std::uint64_t) { return misplaced(key); }
    bool on_other(const std::string& key) { return misplaced(key); }
};

inline bool has_control_character(std::string_view line) {
    bool found = false;
    for (const char c : line)
        found |= static_cast<unsigned char>(c) < 0x20;
    return found;
}

inline const char* refusal_of(Scan scan, const EventVisitor& visitor) {
    switch (scan) {
        case Scan::stopped:
            return visitor.refusal;
        case Scan::malformed:
            return "a line that is not valid JSON in UTF-8";
        case Scan::too_deep:
            return "JSON nested too deep";
        case Scan::no_object:
            return "a line that is not a JSON object";
        case Scan::complete:
            break;
    }
    if (visitor.name.empty())
        return "an event without `ev`";
    if (visitor.data.empty() && visitor.name != ev::done)
        return "an event without `data`";
    return nullptr;
}

}  // namespace detail

/// Checks {"ev":NAME,"data":{…}}: well-formed JSON in UTF-8 with finite numbers, no raw control character,
/// NAME one of k_turn_events, `data` an object nested at most base::k_max_event_depth deep, neither twice.
/// `data` may be missing for `done` only. Other members are checked and ignored; a carriage return before
/// the newline is allowed.
inline ScannedEvent scan_event(std::string_view line) {
    if (line.ends_with('\r'))
        line.remove_suffix(1);
    // Also what keeps a NUL from the lexer, and a carriage return out of text/event-stream.
    if (detail::has_control_character(line))
        return {{}, {}, "a raw control character in an event"};
    detail::EventVisitor visitor;
    const Scan scan = scan_object(line, base::k_max_event_depth + 1, visitor);
    if (const char* refusal = detail::refusal_of(scan, visitor))
        return {{}, {}, refusal};
    return {visitor.name, visitor.data.empty() ? std::string_view("{}") : visitor.data, nullptr};
}

}  // namespace atl::bridge
