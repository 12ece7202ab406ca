// The total and available memory of the host (proc(5), /proc/meminfo).
#pragma once

#include <filesystem>
#include <optional>

#include "core/sandbox/types.hpp"

namespace atl::app {

/// None if `meminfo` cannot be read or is not of that form. A read of the kernel's memory, not of a disk.
std::optional<sandbox::HostMemory> read_host_memory(const std::filesystem::path& meminfo);

}  // namespace atl::app
