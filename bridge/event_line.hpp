// The host's check of one line that an agent wrote. The payload stays the agent's own text, byte for byte:
// no number is rounded, no key reordered, no escape rewritten. Pure; no I/O.
#pragma once

#include <string_view>

#include "core/base/error.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::bridge {

/// Checks what scan_event() (event_scan.hpp) says an event is. The event's views are of `line` or static. An
/// Error (bridge_failed) says what is wrong, quotes the beginning of the line as it came, with what is not
/// UTF-8 replaced, and lists what is allowed. It is not escaped: its writer does that.
base::Result<sandbox::AgentEvent> parse_event_line(std::string_view line);

}  // namespace atl::bridge
