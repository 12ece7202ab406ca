#include "cgroup/group.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "core/base/limits.hpp"
#include "core/base/pidfd.hpp"

namespace atl::cgroup {
namespace {

// A group whose last member has just died can be busy for a moment more.
constexpr base::Millis k_retry_pause{10};
constexpr int k_max_kill_rounds = 64;

std::string read_at(int folder, const char* name) {
    const base::UniqueFd file(::openat(folder, name, O_RDONLY | O_CLOEXEC));
    std::string text;
    char chunk[4096];
    ssize_t count = 0;
    while (file && (count = ::read(file.get(), chunk, sizeof chunk)) > 0)
        text.append(chunk, static_cast<std::size_t>(count));
    return text;
}

// A pid that was read may mean another process by now: it is signalled only if, once a pidfd is held, the
// group still lists it.
void signal_member(int group, pid_t pid) {
    const auto pidfd = base::open_pidfd(pid);
    const std::string line = std::to_string(pid) + "\n";
    if (pidfd && ("\n" + read_at(group, "cgroup.procs")).find("\n" + line) != std::string::npos)
        base::send_signal(*pidfd, SIGKILL);
}

void kill_by_signals(int group) {
    for (int round = 0; round < k_max_kill_rounds; ++round) {
        const std::string members = read_at(group, "cgroup.procs");
        if (members.empty())
            return;
        const char* at = members.data();
        const char* end = at + members.size();
        while (at < end) {
            pid_t pid = 0;
            const auto parsed = std::from_chars(at, end, pid);
            if (pid > 0)
                signal_member(group, pid);
            at = parsed.ptr + 1;
        }
    }
}

}  // namespace

void kill_members(int group) {
    const base::UniqueFd file(::openat(group, "cgroup.kill", O_WRONLY | O_CLOEXEC));
    if (!file || ::write(file.get(), "1", 1) != 1)
        kill_by_signals(group);
}

bool is_populated(int events_fd) {
    char text[256];
    const ssize_t count = ::pread(events_fd, text, sizeof text, 0);
    return count > 0 && std::string_view(text, static_cast<std::size_t>(count)).find("populated 1") !=
                            std::string_view::npos;
}

base::Result<std::unique_ptr<Group>> Group::open(base::Executor executor, base::Timers& timers,
                                                 std::shared_ptr<base::UniqueFd> parent, std::string name) {
    base::UniqueFd folder(::openat(parent->get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    base::UniqueFd events(folder ? ::openat(folder.get(), "cgroup.events", O_RDONLY | O_CLOEXEC) : -1);
    if (!events) {
        const int error_number = errno;
        ::unlinkat(parent->get(), name.c_str(), AT_REMOVEDIR);
        return base::Error(base::Errc::sandbox_failed,
                           base::errno_text("opening the cgroup " + name, error_number));
    }
    return std::unique_ptr<Group>(new Group(executor, timers, std::move(parent), std::move(name),
                                            std::move(folder), std::move(events)));
}

Group::Group(base::Executor executor, base::Timers& timers, std::shared_ptr<base::UniqueFd> parent,
             std::string name, base::UniqueFd folder, base::UniqueFd events)
    : timers_(timers),
      parent_(std::move(parent)),
      name_(std::move(name)),
      folder_(std::move(folder)),
      events_(executor, std::move(events)) {}

Group::~Group() {
    timers_.cancel(deadline_);
    timers_.cancel(retry_);
    if (removed_)
        return;
    kill_members(folder_.get());
    ::unlinkat(parent_->get(), name_.c_str(), AT_REMOVEDIR);
}

void Group::remove(std::function<void(base::Result<void>)> done) {
    done_ = std::move(done);
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
    if (is_populated(events_.fd().get())) {
        await_empty();
    } else if (::unlinkat(parent_->get(), name_.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
        removed_ = true;
        finish({});
    } else if (errno == EBUSY) {
        await_retry();
    } else {
        finish(base::Error(base::Errc::internal, base::errno_text("removing the cgroup " + name_, errno)));
    }
}

// The read in is_populated() came first: a change after it wakes the wait (cgroups(7), cgroup.events).
void Group::await_empty() {
    events_.wait(isolation::FdWatch::Event::exceptional, [this] { try_remove(); });
}

void Group::await_retry() {
    retry_ = timers_.arm(k_retry_pause, [this] {
        retry_ = 0;
        try_remove();
    });
}

void Group::finish(base::Result<void> result) {
    timers_.cancel(std::exchange(deadline_, 0));
    timers_.cancel(std::exchange(retry_, 0));
    events_.stop();
    if (auto done = std::exchange(done_, nullptr))
        done(std::move(result));
}

}  // namespace atl::cgroup
