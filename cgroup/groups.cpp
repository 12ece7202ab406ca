#include "cgroup/groups.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "cgroup/group.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::cgroup {
namespace {

namespace fs = std::filesystem;

constexpr int k_poll_ms = 100;

base::UniqueFd open_folder(int at, const char* name) {
    return base::UniqueFd(::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Blocks, at most base::k_kill_deadline: only for the start of the server.
bool wait_until_empty(int events_fd) {
    const auto deadline = std::chrono::steady_clock::now() + base::k_kill_deadline;
    while (is_populated(events_fd)) {
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        pollfd entry{events_fd, POLLPRI, 0};
        ::poll(&entry, 1, k_poll_ms);
    }
    return true;
}

/// Ends and removes the group `name` of an earlier run.
bool clear_leftover(int parent, const std::string& name) {
    const base::UniqueFd folder = open_folder(parent, name.c_str());
    const base::UniqueFd events(folder ? ::openat(folder.get(), "cgroup.events", O_RDONLY | O_CLOEXEC) : -1);
    if (!events)
        return errno == ENOENT;
    const bool was_alive = is_populated(events.get());
    kill_members(folder.get());
    const bool empty = wait_until_empty(events.get());
    base::LogLine(base::evt::sandbox_cleanup)
        .field("group", name)
        .field("err", was_alive ? "processes of an earlier run were killed" : "left by an earlier run")
        .warn();
    return empty && (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT);
}

bool clear_leftovers(const fs::path& parent, int folder) {
    std::error_code error;
    bool cleared = true;
    for (const auto& entry : fs::directory_iterator(parent, error)) {
        if (entry.is_directory(error) && !entry.is_symlink(error))
            cleared = clear_leftover(folder, entry.path().filename().string()) && cleared;
    }
    return cleared;
}

}  // namespace

base::Result<std::unique_ptr<Groups>> Groups::open(base::Executor executor, base::Timers& timers,
                                                   const std::string& instance_id, const Candidates& where) {
    for (const auto& candidate : where) {
        const fs::path parent = candidate / ("atoll-" + instance_id);
        if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST)
            continue;
        base::UniqueFd folder = open_folder(AT_FDCWD, parent.c_str());
        if (!folder || ::faccessat(folder.get(), "cgroup.procs", W_OK, 0) != 0)
            continue;
        if (!clear_leftovers(parent, folder.get()))
            return base::Error(base::Errc::host_unsupported,
                               "processes of an earlier run in " + parent.string() + " cannot be ended");
        return std::unique_ptr<Groups>(new Groups(executor, timers, parent, std::move(folder)));
    }
    return std::unique_ptr<Groups>(new Groups(executor, timers, {}, {}));
}

Groups::Groups(base::Executor executor, base::Timers& timers, fs::path parent, base::UniqueFd folder)
    : executor_(executor),
      timers_(timers),
      parent_(std::move(parent)),
      folder_(std::make_shared<base::UniqueFd>(std::move(folder))) {}

// Fails while a group is left in it; the next start removes both.
Groups::~Groups() {
    if (!parent_.empty())
        ::rmdir(parent_.c_str());
}

base::Result<std::unique_ptr<sandbox::ResourceGroup>> Groups::create(const std::string& name,
                                                                     const sandbox::Limits& limits) {
    (void)limits;
    if (parent_.empty())
        return std::unique_ptr<sandbox::ResourceGroup>();
    if (::mkdirat(folder_->get(), name.c_str(), 0755) != 0)
        return base::Error(base::Errc::sandbox_failed, base::errno_text("making the cgroup " + name, errno));
    auto group = Group::open(executor_, timers_, folder_, name);
    if (!group)
        return group.error();
    return std::unique_ptr<sandbox::ResourceGroup>(std::move(*group));
}

void Groups::describe(sandbox::Enforcement& enforcement) const {
    enforcement.memory = "none";
    enforcement.cpu = "none";
    enforcement.processes = "none";
}

}  // namespace atl::cgroup
