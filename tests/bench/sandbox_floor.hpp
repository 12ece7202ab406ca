// The floor of `create_cold_ms`: a plain process that starts bwrap with posix_spawn, as an unprivileged user,
// and takes the time until the first byte of a small static program inside. The arguments and the filters are
// the product's own (core/isolation). The process is one of its own, since it gives up its privileges.
// Sandboxes stay until end_all(), as a server's do.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/plain/unique_fd.hpp"
#include "tests/bench/child.hpp"
#include "tests/bench/temp_dir.hpp"

namespace atl::bench {

/// How bwrap is started.
struct Profile {
    std::vector<std::string> args;                      // after the program's name
    std::vector<std::pair<base::UniqueFd, int>> files;  // descriptors, and which number `args` give them
};

class SandboxFloor {
  public:
    SandboxFloor();

    /// Starts one; milliseconds from before posix_spawn to the first byte.
    double start_ms();
    /// Kills all that were started and waits for their end.
    void end_all();

  private:
    double ask(char command);

    TempDir dir_;
    Profile profile_;
    base::UniqueFd socket_;
    std::unique_ptr<Child> spawner_;
};

}  // namespace atl::bench
