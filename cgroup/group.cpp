#include "cgroup/group.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "cgroup/files.hpp"
#include "cgroup/members.hpp"
#include "cgroup/pressure.hpp"
#include "core/base/limits.hpp"
#include "core/isolation/zygote.hpp"

namespace atl::cgroup {
namespace {

// A group whose last member has just died can be busy for a moment more. The pause between two attempts to
// remove it doubles.
constexpr base::Millis k_first_retry_pause{10};
constexpr base::Millis k_longest_retry_pause{160};

base::Error group_failed(const std::string& what) {
    return base::Error(base::Errc::sandbox_failed, base::errno_text(what, errno));
}

}  // namespace

base::Result<std::unique_ptr<Group>> Group::make(base::Executor executor, base::Timers& timers,
                                                 const Places& places, std::string name) {
    std::unique_ptr<Group> group(new Group(executor, timers, std::move(name)));
    for (const Place& place : places.all) {
        if (auto added = group->add_part(place); !added)
            return added.error();
    }
    return group;
}

base::Result<std::unique_ptr<Group>> Group::open(base::Executor executor, base::Timers& timers,
                                                 const Places& places, std::string name) {
    std::unique_ptr<Group> group(new Group(executor, timers, std::move(name)));
    for (const Place& place : places.all)
        group->open_part(place);
    if (group->parts_.empty())
        return group_failed("opening the cgroup " + group->name_);
    return group;
}

Group::Group(base::Executor executor, base::Timers& timers, std::string name)
    : executor_(executor), timers_(timers), name_(std::move(name)) {}

Group::~Group() {
    timers_.cancel(deadline_);
    timers_.cancel(retry_);
    zygote_.reset();
    if (parts_.empty())
        return;
    kill();
    remove_parts();
}

base::Result<void> Group::add_part(const Place& place) {
    if (::mkdirat(place.folder->get(), name_.c_str(), 0755) != 0)
        return group_failed("making the cgroup " + name_ + " in " + place.path.string());
    if (open_part(place))
        return {};
    const auto error = group_failed("opening the cgroup " + name_);
    ::unlinkat(place.folder->get(), name_.c_str(), AT_REMOVEDIR);
    return error;
}

/// False with errno.
bool Group::open_part(const Place& place) {
    Part part{place.folder,
              base::UniqueFd(::openat(place.folder->get(), name_.c_str(),
                                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
              place.version};
    if (!part.folder)
        return false;
    for (const Controller controller : place.controllers)
        controllers_[controller] = {part.folder.get(), place.version};
    parts_.push_back(std::move(part));
    return true;
}

bool Group::is_empty() const {
    return parts_.empty() || !has_members(parts_.front().folder.get());
}

std::vector<std::uint32_t> Group::host_uids() const {
    std::set<std::uint32_t> found;
    for (const Part& part : parts_) {
        for (const std::uint32_t uid : uids_of_members(part.folder.get())) {
            if (uid >= base::k_first_host_uid)
                found.insert(uid);
        }
    }
    return {found.begin(), found.end()};
}

base::Result<void> Group::start_zygote(std::filesystem::path program) {
    zygote_program_ = std::move(program);
    const auto procs = open_procs();
    if (!procs)
        return procs.error();
    std::vector<int> join;
    for (const auto& file : *procs)
        join.push_back(file.get());
    auto zygote = isolation::Zygote::start(zygote_program_, clone_into_fd(), join);
    if (!zygote)
        return zygote.error();
    zygote_ = std::make_shared<isolation::Zygote>(std::move(*zygote));
    return {};
}

base::Result<std::shared_ptr<sandbox::PreparedProcess>> Group::take_prepared_process() {
    if (!zygote_ && !zygote_program_.empty()) {
        if (auto started = start_zygote(zygote_program_); !started)
            return started.error();
    }
    return std::shared_ptr<sandbox::PreparedProcess>(std::exchange(zygote_, nullptr));
}

int Group::clone_into_fd() const {
    return parts_.front().version == 2 ? parts_.front().folder.get() : -1;
}

void Group::kill() {
    zygote_.reset();
    for (const Part& part : parts_) {
        kill_members(part.folder.get());
        // Members are the same in all; without a count of v2 each is asked.
        if (part.version == 2)
            break;
    }
    // A process that v1 froze does not die before it is thawed, whichever hierarchy the signal came from.
    if (freezer_)
        (void)freezer_->thaw();
}

/// v2 first: a process that v2 froze can be killed without a thaw. If no hierarchy can freeze, the freezer's
/// own calls fail.
Group::FreezerFolder Group::find_freezer() const {
    for (const Part& part : parts_) {
        if (part.version == 2 && exists_at(part.folder.get(), "cgroup.freeze"))
            return {part.folder.get(), 2};
    }
    const auto v1 = controllers_.find(Controller::freezer);
    return v1 == controllers_.end() ? FreezerFolder{-1, 1} : FreezerFolder{v1->second.folder, 1};
}

void Group::freeze(std::function<void(base::Result<void>)> done) {
    if (!freezer_) {
        const FreezerFolder at = find_freezer();
        freezer_.emplace(executor_, timers_, at.folder, at.version);
    }
    freezer_->freeze(std::move(done));
}

base::Result<void> Group::thaw() {
    return freezer_ ? freezer_->thaw() : base::Result<void>();
}

base::Result<std::vector<base::UniqueFd>> Group::open_procs() const {
    std::vector<base::UniqueFd> files;
    for (const Part& part : parts_) {
        if (part.version != 1)
            continue;
        files.emplace_back(::openat(part.folder.get(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
        if (!files.back())
            return group_failed("opening cgroup.procs of " + name_);
    }
    return files;
}

base::Result<void> Group::set_limits(const sandbox::Limits& limits) {
    constexpr std::uint64_t k_bytes_per_mb = 1024UL * 1024;
    memory_bytes_ = limits.memory_mb * k_bytes_per_mb;
    auto written = write_limits(controllers_, limits);
    if (memory_watch_)
        memory_watch_->set_limit(memory_bytes_);
    return written;
}

void Group::watch_memory(sandbox::MemoryWarning on_warning) {
    const auto memory = controllers_.find(Controller::memory);
    if (memory != controllers_.end())
        memory_watch_.emplace(executor_, timers_, memory->second, memory_bytes_, std::move(on_warning));
}

void Group::watch_processes(sandbox::ProcessWarning on_warning) {
    const auto pids = controllers_.find(Controller::pids);
    if (pids != controllers_.end())
        process_watch_.emplace(executor_, timers_, pids->second, std::move(on_warning));
}

void Group::watch_oom(std::function<void()> on_oom) {
    const auto memory = controllers_.find(Controller::memory);
    if (memory != controllers_.end())
        oom_watch_.emplace(executor_, timers_, memory->second, std::move(on_oom));
}

std::uint64_t Group::oom_kills() const {
    return read_oom_kills(controllers_);
}

sandbox::Usage Group::usage() const {
    sandbox::Usage usage = read_usage(controllers_);
    for (const Part& part : parts_) {
        if (part.version == 2)
            read_pressure(part.folder.get(), usage);
    }
    return usage;
}

std::vector<pid_t> Group::members() const {
    return parts_.empty() ? std::vector<pid_t>() : members_of(parts_.front().folder.get());
}

std::optional<std::uint64_t> Group::held_bytes() const {
    const auto memory = controllers_.find(Controller::memory);
    return memory == controllers_.end() ? std::nullopt : read_held_bytes(memory->second);
}

void Group::remove(std::function<void(base::Result<void>)> done) {
    done_ = std::move(done);
    retry_pause_ = k_first_retry_pause;
    deadline_ = timers_.arm(base::k_kill_deadline, [this] {
        deadline_ = 0;
        finish(base::Error(base::Errc::deadline_exceeded, "the cgroup " + name_ + " does not become empty"));
    });
    // Not from inside this call: the port's rule.
    retry_ = timers_.arm(base::Millis{0}, [this] {
        retry_ = 0;
        try_remove();
    });
}

void Group::try_remove() {
    oom_watch_.reset();
    memory_watch_.reset();
    process_watch_.reset();
    freezer_.reset();
    if (!is_empty())
        await_empty();
    else if (remove_parts())
        finish({});
    else if (errno == EBUSY)
        await_retry();
    else
        finish(base::Error(base::Errc::internal, base::errno_text("removing the cgroup " + name_, errno)));
}

// Removes the parts from the last to the first, so that after a failure the remaining parts can still count
// members. errno has the reason.
bool Group::remove_parts() {
    while (!parts_.empty()) {
        if (::unlinkat(parts_.back().parent->get(), name_.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
            return false;
        std::erase_if(controllers_,
                      [&](const auto& entry) { return entry.second.folder == parts_.back().folder.get(); });
        parts_.pop_back();
    }
    return true;
}

// v2 tells when it becomes empty (cgroups(7), cgroup.events). The wait is armed before the second look, so no
// change is missed; v1 has no such file and is looked at again.
void Group::await_empty() {
    if (parts_.front().version == 1)
        return await_retry();
    if (!events_) {
        base::UniqueFd events(::openat(parts_.front().folder.get(), "cgroup.events", O_RDONLY | O_CLOEXEC));
        if (!events)
            return await_retry();
        events_.emplace(executor_, std::move(events));
    }
    char text[256];
    (void)!::pread(events_->fd().get(), text, sizeof text, 0);
    events_->wait(base::FdWatch::Event::exceptional, [this] { try_remove(); });
    if (!has_members(parts_.front().folder.get())) {
        events_->stop();
        await_retry();
    }
}

void Group::await_retry() {
    retry_ = timers_.arm(retry_pause_, [this] {
        retry_ = 0;
        try_remove();
    });
    retry_pause_ = std::min(2 * retry_pause_, k_longest_retry_pause);
}

void Group::finish(base::Result<void> result) {
    timers_.cancel(std::exchange(deadline_, 0));
    timers_.cancel(std::exchange(retry_, 0));
    events_.reset();
    if (auto done = std::exchange(done_, nullptr))
        done(std::move(result));
}

}  // namespace atl::cgroup
