#include "fs-guard/workspace_root.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace atl::fs_guard {

base::Result<std::filesystem::path> workspace_root(const std::filesystem::path& data_dir) {
    const auto disk = data_dir / "disk";
    struct statx about {};
    if (::statx(AT_FDCWD, disk.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &about) != 0) {
        if (errno == ENOENT)
            return data_dir;
        return base::Error(base::Errc::storage_failed, base::errno_text("stat " + disk.string(), errno));
    }
    // Known to the kernel since Linux 5.8 (statx(2)).
    if ((about.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0)
        return base::Error(base::Errc::storage_failed,
                           disk.string() +
                               " is where the workspaces' file system belongs, and nothing is mounted "
                               "there: mount it, or repeat scripts/workspace-image, "
                               "which does and prints the line for /etc/fstab");
    return disk;
}

}  // namespace atl::fs_guard
