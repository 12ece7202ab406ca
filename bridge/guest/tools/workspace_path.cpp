#include "bridge/guest/tools/workspace_path.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <utility>

#include "core/plain/inner_paths.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/plain/path_text.hpp"
#include "core/plain/tool_table.hpp"
#include "core/plain/utf8.hpp"

namespace atl::guest {
namespace {

// The kernel has the same bound, path_resolution(7).
constexpr int k_most_links = 40;

std::optional<std::string> fail(int error_number) {
    errno = error_number;
    return std::nullopt;
}

/// The path of an open file as the kernel names it; empty, and errno, where it has none.
std::string path_of(int fd) {
    char text[PATH_MAX];
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t size = readlink(link.c_str(), text, sizeof text);
    if (size <= 0)
        return {};
    if (size == sizeof text)
        return errno = ENAMETOOLONG, std::string();
    return std::string(text, static_cast<std::size_t>(size));
}

/// `text` without `prefix` and the slashes behind it; nothing if it lies elsewhere.
std::optional<std::string_view> below(std::string_view text, std::string_view prefix) {
    if (!text.starts_with(prefix))
        return std::nullopt;
    text.remove_prefix(prefix.size());
    if (!text.empty() && text.front() != '/' && !prefix.ends_with('/'))
        return std::nullopt;
    while (text.starts_with('/'))
        text.remove_prefix(1);
    return text;
}

struct Meaning {
    std::string_view code;
    std::string_view words;
};

Meaning meaning_of(int error_number) {
    using namespace base::tool_error;
    switch (error_number) {
        case ENOENT:
            return {file_not_found, "it does not exist"};
        case EXDEV:
            return {outside_workspace, "the path leads outside the workspace"};
        case EISDIR:
            return {is_directory, "it is a directory"};
        case ENOTDIR:
            return {not_a_directory, "it, or a part of its path, is not a directory"};
        case ENXIO:
        case ENODEV:
            return {base::tool_error::not_a_file, "it is not a regular file"};
        case EEXIST:
            return {file_already_exists, "it exists already"};
        case ELOOP:
            return {invalid_path, "the path goes through too many symbolic links"};
        case ENAMETOOLONG:
            return {invalid_path, "the path, or a name in it, is too long"};
        case EINVAL:
            return {invalid_path, "this is not a path of a file"};
        case EACCES:
        case EPERM:
        case EROFS:
            return {permission_denied, "permission denied"};
        case EAGAIN:
        case ETXTBSY:
        case EBUSY:
        case ESTALE:
            return {file_changed, "it was changed or moved meanwhile"};
        case ENOSPC:
        case EDQUOT:
            return {disk_full, "the disk of the sandbox is full"};
        case EFBIG:
            return {file_too_large, "it is too large"};
        default:
            return {tool_unavailable, {}};
    }
}

}  // namespace

bool is_agent_state(std::string_view relative) {
    while (relative.starts_with("./") || relative.starts_with('/'))
        relative.remove_prefix(relative.starts_with('/') ? 1 : 2);
    return relative.substr(0, relative.find('/')) == base::k_state_folder;
}

std::string path_of_text(std::string_view text) {
    std::string bytes = base::path_bytes(text);
    return base::path_text(bytes) == text ? bytes : std::string(text);
}

WorkspacePaths::WorkspacePaths(const std::string& root)
    : beneath_(root), real_root_(beneath_.is_open() ? path_of(beneath_.fd()) : root) {}

std::optional<std::string> WorkspacePaths::relative(std::string_view given) const {
    const std::optional<std::string> text = relative_pattern(given);
    return text ? std::optional(path_of_text(*text)) : std::nullopt;
}

std::optional<std::string> WorkspacePaths::relative_pattern(std::string_view given) const {
    if (given.find('\0') != std::string_view::npos)
        return fail(EINVAL);
    if (given.size() > base::k_max_path_bytes)
        return fail(ENAMETOOLONG);
    if (!given.starts_with('/'))
        return std::string(given);
    const auto inside = below(given, base::k_inner_workspace);
    if (!inside)
        return fail(EXDEV);
    return std::string(inside->empty() ? std::string_view(".") : *inside);
}

std::optional<Found> WorkspacePaths::find(const std::string& relative) const {
    base::UniqueFd fd = beneath_.look(relative, base::LastLink::followed);
    if (!fd)
        return std::nullopt;
    Found found;
    if (fstat(fd.get(), &found.state) != 0)
        return std::nullopt;
    std::optional<std::string> inside = real_path(fd.get());
    // Moved away or removed since it was opened.
    if (!inside || found.state.st_nlink == 0) {
        errno = ESTALE;
        return std::nullopt;
    }
    if (is_agent_state(*inside)) {
        errno = ENOENT;
        return std::nullopt;
    }
    found.relative = std::move(*inside);
    found.fd = std::move(fd);
    return found;
}

std::optional<std::string> WorkspacePaths::real_path(int fd) const {
    const std::string real = path_of(fd);
    const auto inside = real.empty() ? std::nullopt : below(real, real_root_);
    if (!inside)
        return std::nullopt;
    return std::string(*inside);
}

std::string WorkspacePaths::destination(const std::string& relative) const {
    std::string path = relative;
    for (int links = 0; links < k_most_links; ++links) {
        const base::UniqueFd fd = beneath_.look(path, base::LastLink::itself);
        char text[PATH_MAX];
        const ssize_t size = fd ? readlinkat(fd.get(), "", text, sizeof text) : -1;
        if (size <= 0 || size == sizeof text)
            break;
        const std::string_view target(text, static_cast<std::size_t>(size));
        if (target.starts_with('/')) {
            path = beneath_.below_root(target).value_or(std::string(target));
        } else {
            const std::size_t slash = path.rfind('/');
            path = (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)) +
                   std::string(target);
        }
    }
    return path;
}

std::string WorkspacePaths::shown(std::string_view relative) {
    std::string path = base::k_inner_workspace;
    if (!relative.empty() && relative != ".")
        path += "/" + base::path_text(relative);
    return path;
}

ToolResult not_a_file(const Found& found, std::string_view given, std::string_view doing) {
    if (found.is_directory())
        return path_failure(EISDIR, given, doing);
    const mode_t mode = found.state.st_mode;
    ToolResult result = path_failure(ENODEV, given, doing);
    const char* const kind = S_ISFIFO(mode)   ? "a FIFO"
                             : S_ISSOCK(mode) ? "a socket"
                             : S_ISLNK(mode)  ? "a symbolic link"
                                              : "a device";
    result.error += std::string(" It is ") + kind + ".";
    result.details.text("type", kind + 2);
    return result;
}

ToolResult path_failure(int error_number, std::string_view given, std::string_view doing) {
    const Meaning meaning = meaning_of(error_number);
    std::string name = base::excerpt(given, 512);
    std::string words(meaning.words.empty() ? std::string_view(strerrordesc_np(error_number))
                                            : meaning.words);
    ToolResult result =
        ToolResult::failure(meaning.code, "Cannot " + std::string(doing) + " " + name + ": " + words + ".",
                            "Could not " + std::string(doing) + " " + name + ": " + words + ".");
    result.details.text("path", name);
    if (error_number == EXDEV)
        result.suggestions.push_back("Use a path relative to the workspace, or one under /workspace.");
    return result;
}

}  // namespace atl::guest
