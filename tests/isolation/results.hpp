// The output of the probe: one result for each name. A missing name fails the test that asks for it, so an
// attempt that was never made does not pass for a refused attempt.
#pragma once

#include <map>
#include <set>
#include <string>

namespace atl::test {

class Results {
  public:
    /// Fails the test if the output has a line that is not `NAME RESULT`, or has none at all.
    explicit Results(const std::string& output);

    const std::string& operator[](const std::string& name) const;
    const std::map<std::string, std::string>& all() const noexcept { return results_; }
    std::set<std::string> names() const;
    /// The names whose result is not among `wanted`, with their results; empty if all are.
    std::string others_than(const std::set<std::string>& wanted) const;
    /// The names whose result is `result`.
    std::set<std::string> with(const std::string& result) const;

  private:
    std::map<std::string, std::string> results_;
};

/// The lines of `text` without empty ones.
std::set<std::string> lines_of(const std::string& text);

}  // namespace atl::test
