// Project quotas of the file system that holds the workspaces (ext4 with `prjquota`, XFS with `pquota`): the
// kernel counts all files with a project's number, and refuses writes beyond its limit. A folder with project
// inheritance gives its project to every new entry, and no file can be linked or moved into it from another
// project. Changing the project of a file takes the initial user namespace (ioctl_xfs_fsgetxattr(2)), so no
// sandbox can; setting limits takes CAP_SYS_ADMIN (quotactl(2)), so no rootless server can.
// Invariant: projects below base::k_first_host_uid belong to others and are never touched.
// Not here: the project of each workspace.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::fs_guard {

class ProjectQuota {
  public:
    struct Usage {
        std::uint64_t bytes = 0;  // allocated
        std::uint64_t inodes = 0;
        std::uint64_t limit_bytes = 0;  // 0: none
    };

    /// The quota of the file system of `folder`. Errors: host_unsupported, with the reason: quotas are not
    /// counted or not enforced there, or the process may not set them.
    static base::Result<ProjectQuota> open(int folder);

    /// Puts an empty `folder` and all its future content into `project`; 0 means no project. Errors:
    /// storage_failed.
    static base::Result<void> assign(int folder, std::uint32_t project);
    /// The project that `folder` gives to its new entries; 0 if none.
    static std::uint32_t project_of(int folder);

    /// Applies at once, also to open files. A limit below the present usage only stops growth. 0: no limit.
    /// Errors: storage_failed, invalid_field for a project that is not ours.
    base::Result<void> set_limit(std::uint32_t project, std::uint64_t bytes, std::uint64_t inodes) const;
    /// Nothing of it is left to count.
    base::Result<void> clear(std::uint32_t project) const { return set_limit(project, 0, 0); }
    std::optional<Usage> usage(std::uint32_t project) const;

  private:
    explicit ProjectQuota(base::UniqueFd folder) : folder_(std::move(folder)) {}

    base::UniqueFd folder_;
};

}  // namespace atl::fs_guard
