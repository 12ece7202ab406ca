// The agent's process. It stays in the process group of the adapter, which the guest signals as a whole, and
// is killed when the adapter ends, however that ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/plain/unique_fd.hpp"

namespace atl::adapter {

struct Program {
    pid_t pid = -1;         // or the negated errno of what failed, exec included
    base::UniqueFd input;   // the writing end of its stdin, non-blocking
    base::UniqueFd output;  // the reading end of its stdout, non-blocking
    base::UniqueFd errors;  // the same of its stderr
};

/// argv[0] is looked up in PATH unless it holds a slash. Its environment and directory are the adapter's; its
/// signals are at their defaults.
Program start_program(const std::vector<std::string>& argv);

}  // namespace atl::adapter
