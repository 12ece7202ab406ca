// Gives memory back that a burst of work left in the allocator (malloc_trim(3)), once the server is idle: to
// give back 100 MiB takes some milliseconds, in which a busy server would keep its clients waiting.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/base/clock.hpp"

namespace atl::app {

/// Makes blocks of 128 KiB and more go back to the system when they are freed: without, the threshold grows
/// to 32 MiB with the blocks that were freed (mallopt(3)). Once, before anything is allocated in bulk.
void return_large_blocks() noexcept;

class MemoryTrim {
  public:
    static constexpr base::Millis k_interval{5000};
    static constexpr std::uint64_t k_slack_bytes = 8UL * 1024 * 1024;

    /// Looks from now on; `timers` must outlive this.
    explicit MemoryTrim(base::Timers& timers);
    ~MemoryTrim();
    MemoryTrim(const MemoryTrim&) = delete;
    MemoryTrim& operator=(const MemoryTrim&) = delete;

  private:
    void look();

    base::Timers& timers_;
    std::uint64_t resident_bytes_ = 0;  // after the last trim
    std::chrono::microseconds cpu_{0};  // used up to the last look
    base::TimerId timer_ = 0;
};

}  // namespace atl::app
