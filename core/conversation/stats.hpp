// The counters of the conversation manager, for operators who watch the server. Reading costs nothing;
// nothing here decides anything.
#pragma once

#include "core/base/counts_by.hpp"
#include "core/base/histogram.hpp"
#include "core/conversation/types.hpp"

namespace atl::conversation {

struct Stats {
    base::CountsBy<Status> by_status;  // conversations now, ended ones that are kept among them
    std::uint64_t turns_started = 0;
    base::Histogram turn_duration{base::k_task_bounds};      // for turns of this run that ended
    base::Histogram create_latency{base::k_latency_bounds};  // from the request to the committed answer
};

}  // namespace atl::conversation
