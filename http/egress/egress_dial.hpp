// Connections to upstreams on the way out of sandboxes: to the very addresses that were checked, one after
// the other. Not here: names and the check of addresses (egress_door.hpp).
#pragma once

#include "core/base/clock.hpp"
#include "core/base/task.hpp"
#include "http/egress/egress_parts.hpp"

namespace atl::http {

/// Makes connections from the net namespace of the server. `timers` must outlive them.
EgressDial make_egress_dial(base::Executor executor, base::Timers& timers);

}  // namespace atl::http
