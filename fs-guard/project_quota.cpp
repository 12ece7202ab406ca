#include "fs-guard/project_quota.hpp"

#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "core/base/limits.hpp"

namespace atl::fs_guard {
namespace {

base::Error failed(const std::string& what) {
    return base::Error(base::Errc::storage_failed, base::errno_text(what, errno));
}

base::Error unsupported(std::string why) {
    return base::Error(base::Errc::host_unsupported, std::move(why));
}

// By an open file instead of the name of a device (quotactl_fd(2), Linux 5.14).
int project_quotactl(int folder, unsigned command, std::uint32_t project, void* data) {
    const unsigned request = (command << 8U) | PRJQUOTA;
    return static_cast<int>(::syscall(SYS_quotactl_fd, folder, request, project, data));
}

bool is_ours(std::uint32_t project) {
    return project >= base::k_first_host_uid;
}

}  // namespace

base::Result<ProjectQuota> ProjectQuota::open(int folder) {
    base::UniqueFd own(::fcntl(folder, F_DUPFD_CLOEXEC, 3));
    if (!own)
        return failed("duplicating the folder of workspaces");
    fs_quota_stat state{};
    if (project_quotactl(own.get(), Q_XGETQSTAT, 0, &state) != 0) {
        if (errno == EPERM)
            return unsupported("only root can set project quotas");
        return unsupported(base::errno_text("the file system of the workspaces has no quotas", errno));
    }
    constexpr unsigned wanted = FS_QUOTA_PDQ_ACCT | FS_QUOTA_PDQ_ENFD;
    if ((state.qs_flags & wanted) != wanted)
        return unsupported("the file system of the workspaces is mounted without prjquota");
    // Reading another project's quota takes the same right as setting a limit. A project without a record is
    // no error.
    if_dqblk unused{};
    if (project_quotactl(own.get(), Q_GETQUOTA, base::k_first_host_uid, &unused) != 0 && errno == EPERM)
        return unsupported("only root can set project quotas");
    return ProjectQuota(std::move(own));
}

base::Result<void> ProjectQuota::assign(int folder, std::uint32_t project) {
    fsxattr attributes{};
    if (::ioctl(folder, FS_IOC_FSGETXATTR, &attributes) != 0)
        return failed("reading the project of a folder");
    attributes.fsx_projid = project;
    attributes.fsx_xflags &= ~static_cast<unsigned>(FS_XFLAG_PROJINHERIT);
    if (project != 0)
        attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (::ioctl(folder, FS_IOC_FSSETXATTR, &attributes) != 0)
        return failed("giving a folder to project " + std::to_string(project));
    return {};
}

std::uint32_t ProjectQuota::project_of(int folder) {
    fsxattr attributes{};
    if (::ioctl(folder, FS_IOC_FSGETXATTR, &attributes) != 0 ||
        (attributes.fsx_xflags & FS_XFLAG_PROJINHERIT) == 0)
        return 0;
    return attributes.fsx_projid;
}

base::Result<void> ProjectQuota::set_limit(std::uint32_t project, std::uint64_t bytes,
                                           std::uint64_t inodes) const {
    if (!is_ours(project))
        return base::Error(base::Errc::invalid_field,
                           "project " + std::to_string(project) + " is none of this server's");
    if_dqblk limits{};
    limits.dqb_bhardlimit = (bytes + QIF_DQBLKSIZE - 1) / QIF_DQBLKSIZE;
    limits.dqb_ihardlimit = inodes;
    limits.dqb_valid = QIF_LIMITS;
    if (project_quotactl(folder_.get(), Q_SETQUOTA, project, &limits) != 0)
        return failed("setting the quota of project " + std::to_string(project));
    return {};
}

std::optional<ProjectQuota::Usage> ProjectQuota::usage(std::uint32_t project) const {
    if_dqblk found{};
    if (project_quotactl(folder_.get(), Q_GETQUOTA, project, &found) != 0) {
        // XFS has no record of a project that has never had a file or a limit.
        return errno == ENOENT ? std::optional<Usage>(Usage{}) : std::nullopt;
    }
    return Usage{found.dqb_curspace, found.dqb_curinodes, found.dqb_bhardlimit * QIF_DQBLKSIZE};
}

}  // namespace atl::fs_guard
