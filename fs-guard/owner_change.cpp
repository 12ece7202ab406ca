#include "fs-guard/owner_change.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plain/unique_fd.hpp"
#include "fs-guard/folders.hpp"

namespace atl::fs_guard {
namespace {

bool give(int parent, const std::string& name, std::uint32_t uid) {
    return ::fchownat(parent, name.c_str(), uid, uid, AT_SYMLINK_NOFOLLOW) == 0;
}

/// A folder on the way down. Its names are read before anything below it is opened, so that a deep tree costs
/// one descriptor a level.
struct WayDown {
    base::UniqueFd folder;
    std::vector<std::string> folders;  // still to be entered
};

struct CloseDir {
    void operator()(DIR* listing) const { ::closedir(listing); }
};

/// Gives away all that is in `folder` but the folders, which it lists. False with errno.
bool give_files(int folder, std::uint32_t uid, std::vector<std::string>& folders) {
    const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::unique_ptr<DIR, CloseDir> listing(copy < 0 ? nullptr : ::fdopendir(copy));
    if (!listing)
        return false;
    errno = 0;
    while (const dirent* entry = ::readdir(listing.get())) {
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..")
            continue;
        if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
            folders.emplace_back(name);
        else if (!give(folder, std::string(name), uid))
            return false;
        errno = 0;
    }
    return errno == 0;
}

}  // namespace

base::Result<void> give_tree(int parent, const std::string& name, std::uint32_t host_uid) {
    const std::string what = "giving the workspace " + name + " to uid " + std::to_string(host_uid);
    std::vector<WayDown> way(1);
    way.back().folder = open_existing(parent, name);
    if (!way.back().folder || !give_files(way.back().folder.get(), host_uid, way.back().folders))
        return failed(what, errno);
    while (!way.empty()) {
        WayDown& level = way.back();
        if (level.folders.empty()) {
            way.pop_back();
            continue;
        }
        const std::string next = std::move(level.folders.back());
        level.folders.pop_back();
        WayDown below{open_existing(level.folder.get(), next), {}};
        const bool is_folder = static_cast<bool>(below.folder);
        if (!is_folder && errno != ENOTDIR && errno != ELOOP)
            return failed(what, errno);
        if (!give(level.folder.get(), next, host_uid) ||
            (is_folder && !give_files(below.folder.get(), host_uid, below.folders)))
            return failed(what, errno);
        if (is_folder)
            way.push_back(std::move(below));
    }
    if (!give(parent, name, host_uid))
        return failed(what, errno);
    return {};
}

}  // namespace atl::fs_guard
