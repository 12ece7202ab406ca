#include "bridge/event_line.hpp"

#include "bridge/event_scan.hpp"

namespace atl::bridge {

base::Result<sandbox::AgentEvent> parse_event_line(std::string_view line) {
    const ScannedEvent event = scan_event(line);
    if (event.refusal != nullptr)
        return base::Error(base::Errc::bridge_failed, event.refusal);
    return sandbox::AgentEvent{event.name, event.data};
}

}  // namespace atl::bridge
