// Resident memory of a process, for tests that bound how much it grows.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace atl::test {

/// The bound on the growth during a transfer of any length, which must take constant memory.
#ifdef __SANITIZE_ADDRESS__  // ASan keeps freed blocks
inline constexpr long k_growth_kb = 128L * 1024;
#else
inline constexpr long k_growth_kb = 8L * 1024;
#endif

/// In KiB (proc(5), VmRSS); 0 if there is no such process.
inline long resident_kb(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmRSS:"))
            return std::stol(line.substr(6));
    return 0;
}

}  // namespace atl::test
