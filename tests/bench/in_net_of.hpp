// Puts this process, and what it starts meanwhile, into the net namespace of another one.
#pragma once

#include <sys/types.h>

#include <optional>

#include "core/plain/unique_fd.hpp"

namespace atl::bench {

/// From construction to destruction; sockets stay in the namespace in which they were made. Nothing without a
/// process. Needs root (setns(2)). Throws std::system_error.
class InNetOf {
  public:
    explicit InNetOf(std::optional<pid_t> process);
    InNetOf(const InNetOf&) = delete;
    InNetOf& operator=(const InNetOf&) = delete;
    ~InNetOf();

  private:
    base::UniqueFd before_;
};

}  // namespace atl::bench
