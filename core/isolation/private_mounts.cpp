#include "core/isolation/private_mounts.hpp"

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <system_error>

namespace atl::isolation {

base::Result<void> keep_in_memory(const std::filesystem::path& run_dir) {
    std::error_code ignored;
    std::filesystem::remove_all(run_dir, ignored);
    std::filesystem::create_directories(run_dir, ignored);
    std::filesystem::permissions(run_dir, std::filesystem::perms::owner_all, ignored);
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0 ||
        ::mount("atoll", run_dir.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                "mode=0700,size=1m,nr_inodes=0") != 0)
        return base::Error(base::Errc::storage_failed,
                           base::errno_text("tmpfs on " + run_dir.string(), errno));
    return {};
}

}  // namespace atl::isolation
