#include "app/memory_trim.hpp"

#include <malloc.h>

#include "core/base/process_usage.hpp"

namespace atl::app {
namespace {

constexpr int k_large_block_bytes = 128 * 1024;
// Kept at the end of the heap for the next allocations.
constexpr int k_spare_bytes = 1024 * 1024;
// A percentage of one processor. A server with open but silent streams uses less.
constexpr int k_idle_percent = 5;

}  // namespace

void return_large_blocks() noexcept {
    ::mallopt(M_MMAP_THRESHOLD, k_large_block_bytes);
    ::mallopt(M_TRIM_THRESHOLD, k_spare_bytes);
}

MemoryTrim::MemoryTrim(base::Timers& timers) : timers_(timers) {
    look();
}

MemoryTrim::~MemoryTrim() {
    timers_.cancel(timer_);
}

void MemoryTrim::look() {
    timer_ = timers_.arm(k_interval, [this] { look(); });
    const auto usage = base::process_usage();
    const bool idle = (usage.cpu - cpu_) * 100 < k_interval * k_idle_percent;
    cpu_ = usage.cpu;
    if (!idle || usage.resident_bytes < resident_bytes_ + k_slack_bytes)
        return;
    ::malloc_trim(k_spare_bytes);
    resident_bytes_ = base::process_usage().resident_bytes;
}

}  // namespace atl::app
