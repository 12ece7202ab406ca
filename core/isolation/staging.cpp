#include "core/isolation/staging.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <ranges>
#include <sstream>
#include <system_error>

#include "core/isolation/etc_template.hpp"

namespace atl::isolation {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

constexpr int k_max_symlinks = 40;  // path_resolution(7)
// Folders that every Linux has, in the order in which they are least likely to hold something.
constexpr const char* k_places[] = {"/mnt", "/media", "/srv", "/opt", "/home", "/root", "/tmp"};

base::Error staging_failed(const std::string& what, int error_number) {
    return base::Error(base::Errc::host_unsupported,
                       base::errno_text(what, error_number) +
                           " (root needs CAP_SYS_ADMIN for it: give it, or run the server as an unprivileged "
                           "user)");
}

bool is_at_or_below(const fs::path& path, const fs::path& folder) {
    const auto [path_end, folder_end] = std::ranges::mismatch(path, folder);
    return folder_end == folder.end();
}

/// `path` with its first symlink replaced by the symlink's target; none if `path` has no symlink.
std::optional<fs::path> without_first_symlink(const fs::path& path) {
    fs::path prefix;
    for (auto part = path.begin(); part != path.end(); ++part) {
        prefix /= *part;
        std::error_code error;
        if (!fs::is_symlink(prefix, error))
            continue;
        fs::path resolved = prefix.parent_path() / fs::read_symlink(prefix, error);
        while (++part != path.end())
            resolved /= *part;
        return resolved.lexically_normal();
    }
    return std::nullopt;
}

/// Each path that the kernel walks on its way to one of `paths`.
Paths on_the_way(const Paths& paths) {
    Paths all;
    for (const fs::path& path : paths) {
        std::optional<fs::path> next = path.lexically_normal();
        for (int hops = 0; next && hops < k_max_symlinks; ++hops) {
            all.push_back(*next);
            next = without_first_symlink(all.back());
        }
    }
    return all;
}

/// A mount point as /proc/PID/mountinfo writes it: blanks and backslashes in octal (proc_pid_mountinfo(5)).
fs::path unescaped(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size()) {
            out += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

Paths mount_points() {
    std::ifstream table("/proc/self/mountinfo");
    Paths points;
    for (std::string line; std::getline(table, line);) {
        std::istringstream fields(line);
        std::string skipped;
        std::string point;
        fields >> skipped >> skipped >> skipped >> skipped >> point;
        points.push_back(unescaped(point));
    }
    return points;
}

// The last mount goes first: it may lie on an earlier mount. A mount that cannot be unmounted only costs
// time.
void unmount_all_but(const Paths& needed) {
    for (const fs::path& point : std::views::reverse(mount_points())) {
        const bool stays = std::ranges::any_of(needed, [&](const fs::path& path) {
            return is_at_or_below(path, point) || is_at_or_below(point, path);
        });
        if (!stays)
            ::umount2(point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    }
}

base::Result<std::string> find_place(const Paths& needed) {
    for (const char* place : k_places) {
        std::error_code error;
        const bool in_the_way =
            std::ranges::any_of(needed, [&](const fs::path& path) { return is_at_or_below(path, place); });
        if (!in_the_way && fs::is_directory(fs::symlink_status(place, error)))
            return std::string(place);
    }
    return base::Error(base::Errc::host_unsupported,
                       "the data directory, the agents and the programs leave none of /mnt, /media, /srv, "
                       "/opt, /home, /root and /tmp free: make an empty /mnt");
}

base::Result<void> bind(const fs::path& source, const fs::path& target) {
    if (::mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0)
        return staging_failed("binding " + source.string(), errno);
    return {};
}

// Room for base::k_max_etc_copies, at two inodes each, and base::k_max_etc_bytes, at a page a file.
base::Result<void> fill(const fs::path& dir) {
    if (::mount("atoll", dir.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m,nr_inodes=8192") !=
        0)
        return staging_failed("a tmpfs on " + dir.string(), errno);
    for (const char* name : {"workspace", "bridge", "agent", "ptys", "views", "etc"}) {
        std::error_code error;
        fs::create_directory(dir / name, error);
        fs::permissions(dir / name, fs::perms(0755), error);
    }
    if (auto made = make_masks(dir / "masks"); !made)
        return made;
    std::ofstream(dir / "guest").close();
    std::ofstream(dir / "agent-program").close();
    return {};
}

base::Result<void> bind_own_files(const fs::path& dir, const StagingSources& sources) {
    if (auto bound = bind(sources.guest, dir / "guest"); !bound)
        return bound;
    if (!sources.agent_program.empty())
        if (auto bound = bind(sources.agent_program, dir / "agent-program"); !bound)
            return bound;
    return bind(sources.etc, dir / "etc");
}

base::Result<Staging> make_here(const StagingSources& sources) {
    // Done before any unmount, so that no unmount reaches the host. Slave, not private: a mount that the host
    // unmounts later must not stay alive in this namespace.
    if (::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0)
        return staging_failed("a mount namespace apart from the host's", errno);
    Paths wanted = sources.reachable;
    wanted.push_back(sources.guest);
    if (!sources.agent_program.empty())
        wanted.push_back(sources.agent_program);
    wanted.push_back(sources.etc);
    const Paths needed = on_the_way(wanted);
    auto place = find_place(needed);
    if (!place)
        return place.error();
    unmount_all_but(needed);
    if (auto filled = fill(*place); !filled)
        return filled.error();
    auto views = make_host_views(
        fs::path(*place) / "views",
        {sources.guest, sources.etc, sources.folders, sources.etc_parts, sources.agents, mount_points()});
    if (!views)
        return views.error();
    if (auto bound = views->mounts.empty() ? bind_own_files(*place, sources) : base::Result<void>{}; !bound)
        return bound.error();
    Staging made{base::UniqueFd(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)), *place,
                 std::move(*views)};
    if (!made.mount_namespace)
        return staging_failed("open /proc/self/ns/mnt", errno);
    return made;
}

}  // namespace

base::Result<Staging> make_staging(const StagingSources& sources) {
    const base::UniqueFd own(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    const base::UniqueFd folder(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!own)
        return staging_failed("open /proc/self/ns/mnt", errno);
    if (::unshare(CLONE_NEWNS) != 0)
        return staging_failed("a mount namespace", errno);
    auto made = make_here(sources);
    // setns(2) leaves the process in the root of the namespace.
    if (::setns(own.get(), CLONE_NEWNS) != 0)
        return staging_failed("going back to the server's mount namespace", errno);
    if (folder && ::fchdir(folder.get()) != 0)
        return staging_failed("going back to the working directory", errno);
    return made;
}

}  // namespace atl::isolation
