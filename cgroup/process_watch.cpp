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
    if (folder_.version == 2 && !is_untold_)
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
// is missed.
void ProcessWatch::look() {
    char bytes[256];
    (void)!::pread(events_->fd().get(), bytes, sizeof bytes, 0);
    const auto now = std::chrono::steady_clock::now();
    const std::uint64_t count = refused();
    if (std::exchange(refused_, count) != count) {
        refused_at_ = now;
        is_untold_ = true;
    }
    const bool tells = is_untold_ && (!told_at_ || now - *told_at_ >= base::k_process_warning_interval);
    if (tells) {
        told_at_ = now;
        is_untold_ = false;
    }
    await();
    if (tells) {
        const auto held = read_process_count(folder_);
        on_warning_(held.used, held.limit);
    }
}

bool ProcessWatch::is_crowded() const {
    if (!refused_at_ && (folder_.version == 2 || refused() == 0))
        return false;
    const bool refuses_now =
        refused() != refused_ ||
        (refused_at_ && std::chrono::steady_clock::now() - *refused_at_ < base::k_refusal_memory);
    const auto count = read_process_count(folder_);
    return count.limit - count.used <
           1 + count.limit / (refuses_now ? base::k_refusing_share : base::k_crowded_share);
}

}  // namespace atl::cgroup
