#include "fs-guard/orphans.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <unordered_set>

#include "core/base/clock.hpp"
#include "fs-guard/folders.hpp"
#include "fs-guard/project_quota.hpp"

namespace atl::fs_guard {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_date_length = 10;  // of an RFC 3339 time

}  // namespace

base::Result<Orphans> Orphans::open(const fs::path& data_dir) {
    auto folder = open_folder(data_dir / k_orphaned);
    if (!folder)
        return folder.error();
    return Orphans(data_dir / k_orphaned, std::move(*folder));
}

std::vector<Orphan> Orphans::list() const {
    std::vector<Orphan> found;
    for (const auto& date : names_in(path_)) {
        const base::UniqueFd day = open_existing(folder_.get(), date);
        if (!day)
            continue;
        for (const auto& name : names_in(path_ / date)) {
            struct stat status {};
            if (::fstatat(day.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
                found.push_back({date, name, status.st_uid});
        }
    }
    std::sort(found.begin(), found.end(), [](const Orphan& a, const Orphan& b) {
        return std::tie(a.date, a.name) < std::tie(b.date, b.name);
    });
    return found;
}

base::Result<void> Orphans::take(int folder, const std::string& name) const {
    const std::string date = base::rfc3339(base::SystemClock().wall_now()).substr(0, k_date_length);
    auto day = open_folder(path_ / date);
    if (!day)
        return day.error();
    // The kernel refuses to move a file of another project into a folder with project inheritance.
    if (ProjectQuota::project_of(day->get()) != 0)
        (void)ProjectQuota::assign(day->get(), 0);
    if (::renameat2(folder, name.c_str(), day->get(), name.c_str(), RENAME_NOREPLACE) != 0)
        return failed("moving the workspace " + name + " to " + (path_ / date).string(), errno);
    return {};
}

base::Result<void> Orphans::give(const Orphan& orphan, int folder, const std::string& new_name) const {
    const base::UniqueFd day = open_existing(folder_.get(), orphan.date);
    if (!day || ::renameat2(day.get(), orphan.name.c_str(), folder, new_name.c_str(), RENAME_NOREPLACE) != 0)
        return failed("moving " + (path_ / orphan.date / orphan.name).string(), errno);
    // Succeeds when it was the last of its day.
    ::unlinkat(folder_.get(), orphan.date.c_str(), AT_REMOVEDIR);
    return {};
}

std::size_t count_claimed_workspaces(const fs::path& data_dir) {
    const auto marks = names_in(data_dir / k_unclaimed);
    const std::unordered_set<std::string> unclaimed(marks.begin(), marks.end());
    std::size_t claimed = 0;
    (void)each_workspace_name(data_dir, [&](const std::string& name) -> base::Result<void> {
        claimed += unclaimed.contains(name) ? 0 : 1;
        return {};
    });
    return claimed;
}

}  // namespace atl::fs_guard
