#include "fs-guard/free_space.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

namespace atl::fs_guard {
namespace {

/// Allocated on the file system `device`, with the files of the log.
std::uint64_t bytes_of(const std::filesystem::path& database, dev_t device) {
    constexpr std::uint64_t k_block_bytes = 512;  // of st_blocks (stat(2))
    std::uint64_t bytes = 0;
    for (const char* part : {"", "-wal", "-shm"}) {
        struct stat status {};
        if (::stat((database.string() + part).c_str(), &status) == 0 && status.st_dev == device)
            bytes += static_cast<std::uint64_t>(status.st_blocks) * k_block_bytes;
    }
    return bytes;
}

}  // namespace

std::optional<FreeSpace> free_space(const std::filesystem::path& path,
                                    const std::vector<std::filesystem::path>& databases) {
    struct stat place {};
    std::uint64_t own_bytes = 0;
    if (!databases.empty() && ::stat(path.c_str(), &place) == 0) {
        for (const auto& database : databases)
            own_bytes += bytes_of(database, place.st_dev);
    }
    struct statvfs found {};
    if (::statvfs(path.c_str(), &found) != 0)
        return std::nullopt;
    // Blocks reserved for root are not lost: both total and free leave them out.
    const std::uint64_t kept = found.f_bfree - found.f_bavail;
    return FreeSpace{(found.f_blocks - kept) * found.f_frsize, found.f_bavail * found.f_frsize, found.f_files,
                     found.f_favail, own_bytes};
}

}  // namespace atl::fs_guard
