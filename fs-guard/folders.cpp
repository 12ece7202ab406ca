#include "fs-guard/folders.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace atl::fs_guard {

namespace fs = std::filesystem;

base::Error failed(const std::string& what, int error_number) {
    return base::Error(base::Errc::storage_failed, base::errno_text(what, error_number));
}

base::Result<base::UniqueFd> open_folder(const fs::path& path) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return failed("mkdir " + path.string(), errno);
    base::UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder)
        return failed("open " + path.string(), errno);
    return folder;
}

base::UniqueFd open_existing(int parent, const std::string& name) {
    return base::UniqueFd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
        names.push_back(entry.path().filename().string());
    return names;
}

base::Result<void> each_workspace_name(
    const fs::path& data_dir, const std::function<base::Result<void>(const std::string& name)>& visit) {
    const fs::path folder = data_dir / k_workspaces;
    std::error_code error;
    // An entry that is moved away is not met again, and each other one is met once (readdir(3p)).
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (name == "lost+found")
            continue;
        if (auto visited = visit(name); !visited)
            return visited;
    }
    if (error)
        return failed("reading " + folder.string(), error.value());
    return {};
}

}  // namespace atl::fs_guard
