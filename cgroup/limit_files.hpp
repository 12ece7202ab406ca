// The limits and counters of one group, in the words of v2 and of v1 (the kernel's
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/). Plain reads and writes.
#pragma once

#include <map>
#include <optional>

#include "cgroup/hierarchy.hpp"
#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"

namespace atl::cgroup {

/// The group's folder in the hierarchy of one controller. Borrowed.
struct ControllerFolder {
    int folder = -1;
    int version = 2;
};

using ControllerFolders = std::map<Controller, ControllerFolder>;

/// Writes the limits that these controllers enforce: memory without swap, and on v2 all members killed
/// together; a share of one processor every 100 ms; processes and threads, with two more for bubblewrap's
/// outer process and the guest. Errors: sandbox_failed if the kernel refuses one; the others are written all
/// the same.
base::Result<void> write_limits(const ControllerFolders& folders, const sandbox::Limits& limits);

sandbox::Usage read_usage(const ControllerFolders& folders);

struct ProcessCount {
    std::uint32_t used = 0;  // threads count
    std::uint32_t limit = 0;
};

/// The sandbox's own: without the two that write_limits() adds.
ProcessCount read_process_count(const ControllerFolder& pids);

/// Processor time of the members of a group and of all groups below it, in microseconds; none where no
/// hierarchy accounts it.
std::optional<std::uint64_t> read_cpu_usec(const ControllerFolders& folders);

/// The memory of the members, without cached files that were not used lately.
std::optional<std::uint64_t> read_held_bytes(const ControllerFolder& memory);

/// Kills by the kernel for the memory limit of the group, so far.
std::uint64_t read_oom_kills(const ControllerFolders& folders);

}  // namespace atl::cgroup
