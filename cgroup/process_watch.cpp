#include "cgroup/process_watch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "cgroup/files.hpp"
#include "core/base/limits.hpp"

namespace atl::cgroup {
namespace {

constexpr base::Millis k_first_look_pause{100};
constexpr base::Millis k_look_interval{1'000};

}  // namespace

ProcessWatch::ProcessWatch(const base::Executor& executor, base::Timers& timers, ControllerFolder folder,
                           sandbox::ProcessWarning on_warning)
    : executor_(executor), timers_(timers), folder_(folder), on_warning_(std::move(on_warning)) {
    rest(k_first_look_pause, [this] { begin(); });
}

ProcessWatch::~ProcessWatch() {
    timers_.cancel(pause_);
}

void ProcessWatch::begin() {
    base::UniqueFd events(::openat(folder_.folder, "pids.events", O_RDONLY | O_CLOEXEC));
    if (!events)
        return;
    events_.emplace(executor_, std::move(events));
    look();
}

void ProcessWatch::await() {
    if (folder_.version == 2)
        events_->wait(base::FdWatch::Event::exceptional, [this] { look(); });
    else
        rest(k_look_interval, [this] { look(); });
}

void ProcessWatch::rest(base::Millis time, std::function<void()> then) {
    pause_ = timers_.arm(time, [this, then = std::move(then)] {
        pause_ = 0;
        then();
    });
}

std::uint64_t ProcessWatch::refused() const {
    return keyed_number_at(folder_.folder, "pids.events", "max").value_or(0);
}

// The read arms the notification (cgroups(7)) and comes before the count, so that no change between the two
// is missed. What changes during the rest is told once, at its end.
void ProcessWatch::look() {
    char bytes[256];
    (void)!::pread(events_->fd().get(), bytes, sizeof bytes, 0);
    const std::uint64_t now = refused();
    if (std::exchange(refused_, now) == now)
        return await();
    rest(base::k_process_warning_interval, [this] { await(); });
    const auto count = read_process_count(folder_);
    on_warning_(count.used, count.limit);
}

bool ProcessWatch::is_crowded() const {
    if (refused_ == 0 && (folder_.version == 2 || refused() == 0))
        return false;
    const auto count = read_process_count(folder_);
    return count.limit - count.used < 1 + count.limit / base::k_crowded_share;
}

}  // namespace atl::cgroup
