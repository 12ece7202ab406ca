// How much room a file system has, as the kernel counts it.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "fs-guard/disk_meter.hpp"

namespace atl::fs_guard {

/// The space of the file system that holds `path` (statvfs(3)); none if it cannot be told. `databases` are
/// the server's own: those on the same file system count as its own bytes, with their logs. Takes about a
/// microsecond, and one more for each file.
std::optional<FreeSpace> free_space(const std::filesystem::path& path,
                                    const std::vector<std::filesystem::path>& databases = {});

}  // namespace atl::fs_guard
