// What the sandbox manager counts as it happens, for who watches the server. Reading costs nothing; nothing
// here decides anything.
#pragma once

#include "core/base/counts_by.hpp"
#include "core/base/histogram.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

struct Stats {
    base::CountsBy<Status> by_status;  // sandboxes now; those without a living generation among them
    base::CountsBy<ExitClass> exits;   // of generations that were ready
    std::uint64_t failed_starts = 0;   // generations that never became ready
    std::uint64_t socket_kills = 0;    // ended for their sockets
    std::uint64_t host_kills = 0;      // ended because the host was short of memory
    base::Histogram start_latency{base::k_latency_bounds};  // from start() to ready
};

}  // namespace atl::sandbox
