#include "fs-guard/workspace_root.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "fs-guard/folders.hpp"

namespace atl::fs_guard {
namespace {

/// An image without the folder to mount it at holds workspaces that the server would take for lost.
base::Result<std::filesystem::path> without_disk(const std::filesystem::path& data_dir) {
    const auto image = data_dir / "workspaces.image";
    if (::access(image.c_str(), F_OK) != 0)
        return data_dir;
    return base::Error(
        base::Errc::storage_failed,
        image.string() + " holds workspaces, and the folder " + (data_dir / "disk").string() +
            " to mount it at is missing: make it (mkdir) and repeat scripts/workspace-image, or move "
            "the image away");
}

}  // namespace

base::Result<std::filesystem::path> workspace_root(const std::filesystem::path& data_dir) {
    const auto disk = data_dir / "disk";
    struct statx about {};
    if (::statx(AT_FDCWD, disk.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &about) != 0) {
        if (errno == ENOENT)
            return without_disk(data_dir);
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

base::Result<WorkspaceOwners> workspace_owners(const std::filesystem::path& root, uid_t own) {
    WorkspaceOwners owners;
    std::error_code error;
    if (!std::filesystem::exists(root / k_workspaces, error))
        return owners;
    auto visited = each_workspace_name(root, [&](const std::string& name) -> base::Result<void> {
        struct stat status {};
        if (::access((root / k_unclaimed / name).c_str(), F_OK) != 0 &&
            ::lstat((root / k_workspaces / name).c_str(), &status) == 0)
            (status.st_uid == own ? owners.own : owners.others) = true;
        return {};
    });
    if (!visited)
        return visited.error();
    return owners;
}

}  // namespace atl::fs_guard
