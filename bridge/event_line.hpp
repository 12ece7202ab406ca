// The host's check of one line that an agent wrote. The payload stays the agent's own text, byte for byte:
// no number is rounded, no key reordered, no escape rewritten. Pure; no I/O.
#pragma once

#include <string_view>

#include "core/base/error.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::bridge {

/// Checks {"ev":NAME,"data":{…}}: well-formed JSON in UTF-8 with finite numbers, no raw control character,
/// NAME one of k_turn_events, `data` an object nested at most base::k_max_event_depth deep, neither twice.
/// `data` may be missing for `done` only. Other members are checked and ignored; a carriage return before
/// the newline is allowed. The event's views are of `line` or static. An Error (bridge_failed) holds a
/// sentence that quotes nothing of the line.
base::Result<sandbox::AgentEvent> parse_event_line(std::string_view line);

}  // namespace atl::bridge
