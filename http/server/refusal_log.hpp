// Bounds the log lines of refused requests without a key: beyond a burst and a rate for all of them together,
// they are only counted, and one line gives the count.
#pragma once

#include <cstdint>

#include "core/base/clock.hpp"
#include "http/access/rate_limiter.hpp"

namespace atl::http {

class RefusalLog {
  public:
    /// `timers` outlives this.
    explicit RefusalLog(base::Timers& timers);
    /// Logs what is counted.
    ~RefusalLog();
    RefusalLog(const RefusalLog&) = delete;
    RefusalLog& operator=(const RefusalLog&) = delete;

    /// True if the refusal gets a line of its own; otherwise it is counted.
    bool admits(base::SteadyTime now);

  private:
    void log_count();

    base::Timers& timers_;
    RateLimiter lines_;
    base::TimerId timer_ = 0;
    std::int64_t suppressed_ = 0;
};

}  // namespace atl::http
