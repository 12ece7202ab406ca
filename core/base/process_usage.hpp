// The resources that this process uses at the moment. Reads a few lines of /proc (proc(5)), which waits for
// no disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace atl::base {

struct ProcessUsage {
    std::uint64_t resident_bytes = 0;
    std::uint64_t virtual_bytes = 0;
    std::uint64_t max_fds = 0;
    std::chrono::microseconds cpu{};  // user and system
};

ProcessUsage process_usage();

/// Open descriptors. Kernels since 6.2 tell the number at once; on older ones it is counted.
std::uint64_t count_open_fds();
/// The same without the kernel's help: one poll(2) over the numbers that may be open.
std::uint64_t count_open_fds_by_poll();

}  // namespace atl::base
