// How much room a file system has, as the kernel counts it.
#pragma once

#include <filesystem>
#include <optional>

#include "fs-guard/disk_meter.hpp"

namespace atl::fs_guard {

/// Of the file system that holds `path` (statvfs(3)); none if it cannot be told. Takes about a microsecond.
std::optional<FreeSpace> free_space(const std::filesystem::path& path);

}  // namespace atl::fs_guard
