#include "cgroup/place.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <sstream>

#include "cgroup/files.hpp"
#include "cgroup/members.hpp"
#include "core/base/clock.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::cgroup {
namespace {

namespace fs = std::filesystem;

constexpr int k_look_again_ms = 5;

base::UniqueFd open_folder(int at, const char* name) {
    return base::UniqueFd(::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// True when the group is gone.
bool try_to_remove(int parent, int folder, const std::string& name) {
    if (!has_members(folder) && (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT))
        return true;
    kill_members(folder);
    return false;
}

/// The groups of an earlier run, by name: one has folders in several hierarchies.
struct Leftovers {
    std::set<std::string> all;
    std::set<std::string> alive;  // they had processes, which were killed
    std::set<std::string> left;   // they are not gone at the deadline
};

/// Ends and removes the group `name` of an earlier run; false if it is not gone at the deadline.
bool clear_leftover(int parent, const std::string& name, base::SteadyTime deadline) {
    const base::UniqueFd folder = open_folder(parent, name.c_str());
    if (!folder)
        return errno == ENOENT;
    bool gone = try_to_remove(parent, folder.get(), name);
    while (!gone && std::chrono::steady_clock::now() < deadline) {
        ::poll(nullptr, 0, k_look_again_ms);
        gone = try_to_remove(parent, folder.get(), name);
    }
    if (!gone)
        base::LogLine(base::evt::sandbox_cleanup)
            .field("group", name)
            .quoted("err", "processes of an earlier run do not die")
            .warn();
    return gone;
}

void clear_leftovers(const Place& place, base::SteadyTime deadline, Leftovers& leftovers) {
    std::error_code error;
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(place.path, error)) {
        if (entry.is_directory(error) && !entry.is_symlink(error))
            names.push_back(entry.path().filename().string());
    }
    // All are killed before the first wait.
    for (const auto& name : names) {
        leftovers.all.insert(name);
        const base::UniqueFd folder = open_folder(place.folder->get(), name.c_str());
        if (!folder)
            continue;
        if (has_members(folder.get()))
            leftovers.alive.insert(name);
        kill_members(folder.get());
    }
    for (const auto& name : names) {
        if (!clear_leftover(place.folder->get(), name, deadline))
            leftovers.left.insert(name);
    }
}

void tell(const Leftovers& leftovers) {
    if (leftovers.all.empty())
        return;
    base::LogLine(base::evt::sandbox_cleanup)
        .field("groups", static_cast<std::int64_t>(leftovers.all.size()))
        .field("killed", static_cast<std::int64_t>(leftovers.alive.size()))
        .quoted("err", "left by an earlier run, which did not end by itself")
        .warn();
}

/// The server's folder below the first candidate in which it may make one. `path` is empty if there is none;
/// `why` is then the error of the last candidate.
Place open_place(const std::string& name, const Candidates& where, int version, std::string& why) {
    for (const auto& candidate : where) {
        Place place;
        place.version = version;
        const fs::path path = candidate / name;
        const bool made = ::mkdir(path.c_str(), 0755) == 0;
        if (!made && errno != EEXIST) {
            why =
                "this user may not make a group in " + candidate.string() + " (" + std::strerror(errno) + ")";
            continue;
        }
        place.folder = std::make_shared<base::UniqueFd>(open_folder(AT_FDCWD, path.c_str()));
        if (!*place.folder || ::faccessat(place.folder->get(), "cgroup.procs", W_OK, 0) != 0) {
            why = candidate.string() + " is no cgroup that this user may write to";
            continue;
        }
        place.path = path;
        return place;
    }
    return {};
}

// The leaf must not be below our own folder: the next start removes all groups there.
void leave_for_a_leaf(const fs::path& group, const std::string& instance_id) {
    const fs::path leaf = group / ("atoll-server-" + instance_id);
    if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST)
        return;
    const base::UniqueFd folder = open_folder(AT_FDCWD, leaf.c_str());
    if (folder)
        write_at(folder.get(), "cgroup.procs", "0");
}

/// Lets `controller` limit the groups in `group`. Empty, or why it cannot.
std::string enable(int group, Controller controller, const fs::path& path) {
    const std::string name(name_of(controller));
    std::istringstream offered(read_at(group, "cgroup.controllers"));
    if (std::find(std::istream_iterator<std::string>(offered), {}, name) ==
        std::istream_iterator<std::string>())
        return "the kernel offers no " + name + " controller in " + path.string();
    const int error_number = write_at(group, "cgroup.subtree_control", "+" + name);
    if (error_number == EBUSY)
        return "other processes run in " + path.string() +
               ": start the server as a service of its own (systemd-run --user, or the unit in scripts/)";
    if (error_number != 0)
        return "enabling the " + name + " controller in " + path.string() + ": " +
               std::strerror(error_number);
    return {};
}

void enable_controllers(Places& places, Place& place, const std::string& instance_id) {
    const fs::path above = place.path.parent_path();
    const base::UniqueFd folder = open_folder(AT_FDCWD, above.c_str());
    if (!folder)
        return;
    if (exists_at(folder.get(), "cgroup.type") && !read_at(folder.get(), "cgroup.procs").empty())
        leave_for_a_leaf(above, instance_id);
    for (const Controller controller : {Controller::memory, Controller::cpu, Controller::pids}) {
        std::string why = enable(folder.get(), controller, above);
        if (why.empty())
            why = enable(place.folder->get(), controller, place.path);
        if (why.empty())
            place.controllers.insert(controller);
        else
            places.missing[controller] = why;
    }
}

Place* find_place(Places& places, const fs::path& path) {
    for (Place& place : places.all) {
        if (place.path == path)
            return &place;
    }
    return nullptr;
}

}  // namespace

Places open_places(const std::string& instance_id, const Layout& layout) {
    const std::string name = "atoll-" + instance_id;
    Places places;
    std::string why = "no cgroup v2 hierarchy is mounted";
    Place unified = open_place(name, layout.unified, 2, why);
    for (const Controller controller : {Controller::memory, Controller::cpu, Controller::pids})
        places.missing[controller] = why;
    if (!unified.path.empty()) {
        enable_controllers(places, unified, instance_id);
        places.all.push_back(std::move(unified));
    }
    for (const auto& [controller, where] : layout.v1) {
        why.clear();
        Place place = open_place(name, where, 1, why);
        if (place.path.empty()) {
            places.missing[controller] = why;
        } else if (Place* same = find_place(places, place.path)) {
            same->controllers.insert(controller);  // mounted together
        } else {
            place.controllers.insert(controller);
            places.all.push_back(std::move(place));
        }
    }
    // The v1 freezer comes first: a process that it froze does not die of a signal before it is thawed.
    std::ranges::stable_partition(
        places.all, [](const Place& place) { return place.controllers.contains(Controller::freezer); });
    const auto deadline = std::chrono::steady_clock::now() + base::k_kill_deadline;
    Leftovers leftovers;
    for (const Place& place : places.all) {
        clear_leftovers(place, deadline, leftovers);
        for (const Controller controller : place.controllers)
            places.missing.erase(controller);
    }
    tell(leftovers);
    places.leftovers = std::move(leftovers.left);
    // v2 counts members; without it the freezer ends them best.
    std::ranges::stable_partition(places.all, [](const Place& place) { return place.version == 2; });
    return places;
}

void close_places(const Places& places) {
    for (const Place& place : places.all)
        ::rmdir(place.path.c_str());
}

}  // namespace atl::cgroup
