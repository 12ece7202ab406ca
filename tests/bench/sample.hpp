// Numbers: a stopwatch, samples with percentiles, how much of everything there is. Milliseconds throughout.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace atl::bench {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point began) {
    return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

/// From now on sized() makes everything smaller (--short).
void make_run_short();
bool is_short_run();
/// `whole`, or a twentieth of it, at least 1, after make_run_short(): of rounds, bytes, rows or clients.
std::size_t sized(std::size_t whole);
/// `whole_ms`, or a twentieth of it.
double sized(double whole_ms);

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
