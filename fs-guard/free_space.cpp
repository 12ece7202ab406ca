#include "fs-guard/free_space.hpp"

#include <sys/statvfs.h>

namespace atl::fs_guard {

std::optional<FreeSpace> free_space(const std::filesystem::path& path) {
    struct statvfs found {};
    if (::statvfs(path.c_str(), &found) != 0)
        return std::nullopt;
    // Blocks reserved for root are not lost: both total and free leave them out.
    const std::uint64_t kept = found.f_bfree - found.f_bavail;
    return FreeSpace{(found.f_blocks - kept) * found.f_frsize, found.f_bavail * found.f_frsize, found.f_files,
                     found.f_favail};
}

}  // namespace atl::fs_guard
