// Numbers: a stopwatch, samples with percentiles, deadlines. Milliseconds throughout.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace atl::bench {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point began) {
    return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

class Samples {
  public:
    void add(double value) { values_.push_back(value); }
    std::size_t size() const { return values_.size(); }
    bool empty() const { return values_.empty(); }
    /// The value that `share` (0 to 1) of all samples do not exceed. Precondition: not empty.
    double percentile(double share) const;
    double p50() const { return percentile(0.5); }
    double p95() const { return percentile(0.95); }

  private:
    std::vector<double> values_;
};

}  // namespace atl::bench
