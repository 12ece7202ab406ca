// Counters of the sandbox manager, for monitoring. Reading them costs nothing; no decision depends on them.
#pragma once

#include "core/base/counts_by.hpp"
#include "core/base/histogram.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

struct Stats {
    base::CountsBy<Status> by_status;                       // sandboxes now, also without a living generation
    base::CountsBy<ExitClass> exits;                        // of generations that were ready
    std::uint64_t failed_starts = 0;                        // generations that never became ready
    std::uint64_t socket_kills = 0;                         // ended for their sockets
    std::uint64_t host_kills = 0;                           // ended because the host was short of memory
    base::Histogram start_latency{base::k_latency_bounds};  // from start() to ready
};

}  // namespace atl::sandbox
