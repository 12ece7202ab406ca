// Project quotas of the file system that holds the workspaces (ext4 with `prjquota`, XFS with `pquota`): the
// kernel counts all that carries a project's number, and refuses what goes beyond its limit. A folder that
// passes its project on gives it to all that is made in it, and nothing can be linked or moved into it from
// another project. Changing the project of a file takes the initial user namespace (ioctl_xfs_fsgetxattr(2)),
// so no sandbox can; setting limits takes CAP_SYS_ADMIN (quotactl(2)), so no rootless server can.
// Invariant: projects below base::k_first_host_uid are somebody else's and are never touched.
// Not here: which workspace has which project.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/unique_fd.hpp"

namespace atl::fs_guard {

class ProjectQuota {
  public:
    struct Usage {
        std::uint64_t bytes = 0;  // allocated
        std::uint64_t inodes = 0;
        std::uint64_t limit_bytes = 0;  // 0: none
    };

    /// Of the file system that `folder` is on. Errors: host_unsupported, saying what is missing: quotas that
    /// are counted and enforced there, or the right to set them.
    static base::Result<ProjectQuota> open(int folder);

    /// Makes an empty `folder` and all that will be in it part of `project`; with 0, of none. Errors:
    /// storage_failed.
    static base::Result<void> assign(int folder, std::uint32_t project);
    /// The project that `folder` passes on to what is in it; 0 if none.
    static std::uint32_t project_of(int folder);

    /// Holds from now on, also for who writes already; less than is in use stops growth only. 0: no limit.
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
