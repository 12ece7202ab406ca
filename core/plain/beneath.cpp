#include "core/plain/beneath.hpp"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace atl::base {
namespace {

// A rename beside the walk makes a `..` uncertain, and the kernel then asks for another try (openat2(2),
// EAGAIN).
constexpr int k_most_tries = 128;
// The kernel has the same bound, path_resolution(7).
constexpr int k_most_links = 40;
// The most directories made for one path that are removed again. No caller needs more, and each costs a walk.
constexpr std::size_t k_most_taken_back = 64;

UniqueFd fail(int error_number) {
    errno = error_number;
    return {};
}

/// The path without the slashes at its end.
std::string_view trimmed(std::string_view path) {
    while (path.size() > 1 && path.ends_with('/'))
        path.remove_suffix(1);
    return path;
}

/// The target of a link, as it is written; empty: it is no link, or too long a one.
std::string target_of(int link) {
    char text[PATH_MAX];
    const ssize_t size = readlinkat(link, "", text, sizeof text);
    return size > 0 && size < PATH_MAX ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

}  // namespace

bool climbs_out(std::string_view path) {
    int depth = 0;
    while (!path.empty()) {
        const std::size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
        if (!part.empty() && part != ".")
            depth += part == ".." ? -1 : 1;
        if (depth < 0)
            return true;
    }
    return false;
}

Beneath::Beneath(const std::string& root)
    : root_path_(trimmed(root)), root_(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

UniqueFd Beneath::open(std::string_view path, int flags, mode_t mode) const {
    if (path.find('\0') != std::string_view::npos)
        return fail(EINVAL);
    const std::string text = path.empty() ? "." : std::string(path);
    UniqueFd fd = open_as_written(text, flags, mode);
    if (fd || errno != EXDEV)
        return fd;
    const std::optional<std::string> resolved =
        without_absolute_links(text, (flags & O_NOFOLLOW) != 0 ? LastLink::itself : LastLink::followed);
    return resolved ? open_as_written(*resolved, flags, mode) : UniqueFd();
}

std::optional<std::string> Beneath::below_root(std::string_view absolute) const {
    if (!absolute.starts_with(root_path_))
        return std::nullopt;
    std::string_view rest = absolute.substr(root_path_.size());
    if (!rest.empty() && rest.front() != '/' && root_path_ != "/")
        return std::nullopt;
    while (rest.starts_with('/'))
        rest.remove_prefix(1);
    return rest.empty() ? std::string(".") : std::string(rest);
}

/// The path with its links written out up to the last absolute one and what that leads through. Nothing, and
/// EXDEV: it has no absolute link, or one that leads elsewhere; ELOOP: there are too many links. Works on the
/// text alone: the kernel says what lies there.
std::optional<std::string> Beneath::without_absolute_links(std::string path, LastLink last) const {
    const auto refuse = [](int error_number) {
        errno = error_number;
        return std::nullopt;
    };
    if (path.starts_with('/'))
        return refuse(EXDEV);
    bool has_absolute = false;
    UniqueFd directory;  // that holds the part at `begin`; no part before is a link. None: the root
    int depth = 0;
    std::size_t begin = 0;
    for (int links = 0; begin < path.size();) {
        if (links > k_most_links || path.size() >= PATH_MAX)
            return refuse(ELOOP);
        const std::size_t slash = std::min(path.find('/', begin), path.size());
        const std::string part = path.substr(begin, slash - begin);
        const int at = directory ? directory.get() : root_.get();
        if (!part.empty() && part != ".")
            depth += part == ".." ? -1 : 1;
        if (depth < 0)
            return refuse(EXDEV);
        UniqueFd here(::openat(at, part.empty() ? "." : part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!here)
            break;
        const bool is_left = last == LastLink::itself && slash == path.size();
        const std::string target = is_left ? std::string() : target_of(here.get());
        if (target.empty()) {
            directory = std::move(here);
            begin = slash + 1;
            continue;
        }
        ++links;
        if (!target.starts_with('/')) {
            --depth;
            path.replace(begin, slash - begin, target);
            continue;
        }
        const std::optional<std::string> inside = below_root(target);
        if (!inside)
            return refuse(EXDEV);
        path = *inside + path.substr(slash);
        directory.reset();
        begin = 0;
        depth = 0;
        has_absolute = true;
    }
    if (!has_absolute)
        return refuse(EXDEV);
    return path;
}

UniqueFd Beneath::open_as_written(const std::string& text, int flags, mode_t mode) const {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags)) | O_CLOEXEC;
    how.mode = (flags & O_CREAT) != 0 ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    long opened = -1;
    for (int tries = 0; tries < k_most_tries; ++tries) {
        opened = ::syscall(SYS_openat2, root_.get(), text.c_str(), &how, sizeof how);
        if (opened >= 0 || (errno != EAGAIN && errno != EINTR))
            break;
    }
    return UniqueFd(static_cast<int>(opened));
}

UniqueFd Beneath::reopen(int looked_at, int flags) {
    const std::string link = "/proc/self/fd/" + std::to_string(looked_at);
    // A process that holds a lease would otherwise make the open wait for it (fcntl(2), F_SETLEASE).
    return UniqueFd(::open(link.c_str(), flags | O_NONBLOCK | O_CLOEXEC));
}

std::optional<Beneath::Place> Beneath::place(std::string_view path) const {
    path = trimmed(path);
    const std::size_t slash = path.rfind('/');
    const std::string_view name = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
    if (name.empty() || name == "." || name == ".." || name.find('\0') != std::string_view::npos) {
        errno = EINVAL;
        return std::nullopt;
    }
    // "/name" is not beneath anything.
    const std::string_view parent =
        slash == std::string_view::npos ? std::string_view(".") : path.substr(0, slash == 0 ? 1 : slash);
    UniqueFd directory = open(parent, O_PATH | O_DIRECTORY);
    if (!directory)
        return std::nullopt;
    return Place{std::move(directory), std::string(name)};
}

std::optional<Beneath::Place> Beneath::make_place(std::string_view path, NewParents* made) const {
    std::optional<Place> found = place(path);
    if (found || errno != ENOENT)
        return found;
    if (climbs_out(path)) {
        errno = EXDEV;
        return std::nullopt;
    }
    return make_parents(path, made) ? place(path) : std::nullopt;
}

bool Beneath::make_parents(std::string_view path, NewParents* made) const {
    path = trimmed(path);
    // The directory of the parts so far. A part that is no link and no ".." is one step from there, else the
    // kernel walks again from the root.
    UniqueFd directory = open(".", O_PATH | O_DIRECTORY);
    std::size_t begin = 0;
    for (std::size_t slash = path.find('/', 1); directory && slash != std::string_view::npos;
         begin = slash + 1, slash = path.find('/', begin)) {
        const std::string name(path.substr(begin, slash - begin));
        if (name.empty() || name == ".")
            continue;
        const bool is_step = name != ".." && name.front() != '/' && name.find('\0') == std::string::npos;
        const bool is_made = is_step && ::mkdirat(directory.get(), name.c_str(), 0777) == 0;
        if (is_step && !is_made && errno != EEXIST)
            return false;
        if (is_made && made != nullptr)
            made->add(path.substr(0, slash));
        UniqueFd next;
        if (is_step)
            next.reset(
                ::openat(directory.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!next)
            next = open(path.substr(0, slash), O_PATH | O_DIRECTORY);
        directory = std::move(next);
    }
    return static_cast<bool>(directory);
}

void NewParents::add(std::string_view path) {
    if (paths_.size() < k_most_taken_back)
        paths_.emplace_back(path);
}

NewParents::~NewParents() {
    const int kept_errno = errno;
    for (; !paths_.empty(); paths_.pop_back()) {
        const std::optional<Beneath::Place> place = root_.place(paths_.back());
        if (!place || ::unlinkat(place->directory.get(), place->name.c_str(), AT_REMOVEDIR) != 0)
            break;
    }
    errno = kept_errno;
}

}  // namespace atl::base
