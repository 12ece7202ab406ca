#include "fs-guard/helper/progress.hpp"

#include <chrono>
#include <cstdint>
#include <iostream>
#include <utility>

#include "core/base/ending_limits.hpp"

namespace atl::helper {
namespace {

using Clock = std::chrono::steady_clock;

struct Progress {
    std::string id;
    std::uint64_t steps = 0;
    Clock::time_point told;
};

// The helper works on one request at a time, so there is one progress.
Progress& progress() {
    static Progress current;
    return current;
}

}  // namespace

void begin_progress(std::string id) {
    progress() = {std::move(id), 0, Clock::now()};
}

void note_progress() {
    Progress& current = progress();
    ++current.steps;
    const auto now = Clock::now();
    if (now - current.told < base::k_helper_progress_interval)
        return;
    current.told = now;
    std::cout << "{\"id\":" << current.id << ",\"progress\":" << current.steps << "}\n" << std::flush;
}

}  // namespace atl::helper
