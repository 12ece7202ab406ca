#include "cgroup/oom_watch.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "cgroup/files.hpp"

namespace atl::cgroup {
namespace {

// The kernel writes a report to the console before it kills. That takes 20 ms, and seconds if the console is
// slow and other processes were killed just before.
constexpr base::Millis k_pause{1};
constexpr int k_prompt_looks = 300;
constexpr base::Millis k_slow_pause{100};
constexpr int k_looks = k_prompt_looks + 300;

base::UniqueFd open_v2(int folder) {
    return base::UniqueFd(::openat(folder, "memory.events", O_RDONLY | O_CLOEXEC));
}

base::UniqueFd open_v1(int folder) {
    base::UniqueFd events(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const base::UniqueFd control(::openat(folder, "memory.oom_control", O_RDONLY | O_CLOEXEC));
    if (!events || !control)
        return {};
    const std::string line = std::to_string(events.get()) + " " + std::to_string(control.get());
    return write_at(folder, "cgroup.event_control", line) == 0 ? std::move(events) : base::UniqueFd();
}

}  // namespace

OomWatch::OomWatch(const base::Executor& executor, base::Timers& timers, ControllerFolder folder,
                   std::function<void()> on_oom)
    : timers_(timers), folder_(folder), on_oom_(std::move(on_oom)) {
    auto fd = folder.version == 2 ? open_v2(folder.folder) : open_v1(folder.folder);
    if (!fd)
        return;
    events_.emplace(executor, std::move(fd));
    // The first read arms the notification (cgroups(7)).
    char bytes[4096];
    if (folder.version == 2)
        (void)!::pread(events_->fd().get(), bytes, sizeof bytes, 0);
    await();
}

OomWatch::~OomWatch() {
    timers_.cancel(again_);
}

void OomWatch::await() {
    const auto event =
        folder_.version == 2 ? base::FdWatch::Event::exceptional : base::FdWatch::Event::readable;
    events_->wait(event, [this] { on_event(); });
}

void OomWatch::on_event() {
    char bytes[4096];
    // Else it would be ready again at once: v2 by the read, v1 by emptying the eventfd.
    if (folder_.version == 2)
        (void)!::pread(events_->fd().get(), bytes, sizeof bytes, 0);
    else
        (void)!::read(events_->fd().get(), bytes, sizeof(std::uint64_t));
    timers_.cancel(std::exchange(again_, 0));
    suspicious_ = true;
    looks_ = 0;
    look();
}

// Nothing may follow the callback: it may destroy this.
void OomWatch::look() {
    if (read_oom_kills({{Controller::memory, folder_}}) > 0) {
        events_->stop();
        std::exchange(on_oom_, nullptr)();
        return;
    }
    await();
    if (folder_.version == 2 || looks_ == k_looks) {
        suspicious_ = false;
        return;
    }
    const base::Millis pause = ++looks_ < k_prompt_looks ? k_pause : k_slow_pause;
    again_ = timers_.arm(pause, [this] {
        again_ = 0;
        events_->stop();
        look();
    });
}

}  // namespace atl::cgroup
