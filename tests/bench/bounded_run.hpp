// Runs a measurement in a process of its own that has a deadline, so that one that hangs is told in a
// sentence and the next one runs.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace atl::bench {

/// Returns what `run` returns in a child of this process. Throws std::runtime_error with a sentence if that
/// takes longer than `deadline`, or if the process ends in another way. Afterwards all that it started has
/// ended, servers by SIGTERM first, and its folders (temp_dir.hpp) are removed. Precondition: this process
/// has no other children; orphans become its children from now on (PR_SET_CHILD_SUBREAPER).
std::string run_within(std::chrono::seconds deadline, const std::function<std::string()>& run);

}  // namespace atl::bench
