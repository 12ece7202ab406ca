// Memory as the kernel tells it, in kilobytes (proc(5)).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace atl::bench {

/// MemAvailable of the host once it stands still: two looks 100 ms apart within 64 KB, or the last of 20.
double settled_mem_available_kb();

/// VmRSS of a process.
double rss_kb(pid_t pid);

/// The processes below `server` that belong to sandboxes: not the server's own program, not its helpers.
std::vector<pid_t> sandbox_processes(pid_t server);

/// Sum of their proportional set sizes (smaps_rollup). Throws if one of them cannot be read, which needs
/// root.
double pss_kb(const std::vector<pid_t>& processes);

}  // namespace atl::bench
