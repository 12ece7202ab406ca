#include "bridge/guest/tools/search_scope.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace atl::guest {

std::string_view SearchScope::inner(std::string_view printed) {
    return printed.starts_with("./") ? printed.substr(2) : printed;
}

std::string SearchScope::whole(std::string_view printed) const {
    const std::string below(inner(printed));
    return relative.empty() || below.empty() ? relative + below : relative + "/" + below;
}

bool SearchScope::has_file(const std::string& printed) const {
    struct stat state {};
    return fstatat(directory.get(), printed.c_str(), &state, AT_SYMLINK_NOFOLLOW) == 0 &&
           !S_ISDIR(state.st_mode);
}

std::optional<ToolResult> find_scope(const ToolRun& run, const std::string& given, ScopeKind kind,
                                     SearchScope& scope) {
    const std::optional<std::string> path = run.paths.relative(given);
    std::optional<Found> found = path ? run.paths.find(*path) : std::nullopt;
    if (!found)
        return path_failure(errno, given, "search");
    if (found->is_directory()) {
        // Else ripgrep finds nothing in it, and says nothing.
        if (faccessat(found->fd.get(), ".", R_OK | X_OK, AT_EACCESS) != 0)
            return path_failure(errno, given, "search");
        scope.directory = std::move(found->fd);
        scope.relative = std::move(found->relative);
        return std::nullopt;
    }
    if (kind == ScopeKind::directory)
        return path_failure(ENOTDIR, given, "search");
    if (!found->is_regular())
        return not_a_file(*found, given, "search");
    auto place = run.paths.beneath().place(found->relative);
    if (!place || faccessat(place->directory.get(), place->name.c_str(), R_OK, AT_EACCESS) != 0)
        return path_failure(errno, given, "search");
    scope.directory = std::move(place->directory);
    scope.file = std::move(place->name);
    const std::size_t slash = found->relative.rfind('/');
    scope.relative = slash == std::string::npos ? std::string() : found->relative.substr(0, slash);
    return std::nullopt;
}

}  // namespace atl::guest
