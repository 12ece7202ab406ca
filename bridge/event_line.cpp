#include "bridge/event_line.hpp"

#include <string>

#include "bridge/event_scan.hpp"

namespace atl::bridge {
namespace {

/// The sentence about what would have been allowed: the form of `data`, or the names of events.
std::string allowed(const ScannedEvent& event) {
    if (!event.wanted_data.empty())
        return "its `data` is " + std::string(event.wanted_data);
    std::string text = "an event is {\"ev\":NAME,\"data\":{…}} with one of the names";
    for (const EventShape& shape : k_event_shapes)
        text.append(text.ends_with("names") ? " " : ", ").append(shape.event);
    return text;
}

}  // namespace

base::Result<sandbox::AgentEvent> parse_event_line(std::string_view line) {
    const ScannedEvent event = scan_event(line);
    if (event.refusal.empty())
        return sandbox::AgentEvent{event.name, event.data};
    return base::Error(base::Errc::bridge_failed,
                       event.refusal + "; the line: " + base::excerpt(line, base::k_quoted_line_bytes) +
                           "; " + allowed(event));
}

}  // namespace atl::bridge
