#include "cgroup/freezer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "cgroup/files.hpp"
#include "cgroup/members.hpp"
#include "core/base/limits.hpp"

namespace atl::cgroup {
namespace {

// Between two looks at a group of v1.
constexpr base::Millis k_first_pause{1};
constexpr base::Millis k_longest_pause{64};

base::Error freezer_failed(const char* what, int error_number) {
    return base::Error(base::Errc::sandbox_failed, base::errno_text(what, error_number));
}

}  // namespace

Freezer::~Freezer() {
    stop_waiting();
}

void Freezer::stop_waiting() {
    timers_.cancel(std::exchange(deadline_, 0));
    timers_.cancel(std::exchange(again_, 0));
    if (events_)
        events_->stop();
}

void Freezer::freeze(Done done) {
    stop_waiting();
    done_ = std::move(done);
    asked_ = true;
    pause_ = k_first_pause;
    const int error_number = set_frozen(folder_, true);
    deadline_ =
        timers_.arm(error_number == 0 ? base::k_freeze_deadline : base::Millis{0}, [this, error_number] {
            deadline_ = 0;
            (void)set_frozen(folder_, false);
            asked_ = false;
            finish(error_number != 0
                       ? freezer_failed("freezing the sandbox's cgroup", error_number)
                       : base::Error(base::Errc::sandbox_failed, "its processes did not stand still"));
        });
    if (error_number != 0)
        return;
    if (version_ == 2 && !events_) {
        base::UniqueFd events(::openat(folder_, "cgroup.events", O_RDONLY | O_CLOEXEC));
        if (events)
            events_.emplace(executor_, std::move(events));
    }
    // The wait is armed before the look, so no change is missed; the answer comes from the loop.
    again_ = timers_.arm(base::Millis{0}, [this] {
        again_ = 0;
        look();
    });
}

void Freezer::look() {
    if (events_) {
        // A read arms the notification (cgroups(7)).
        char text[256];
        (void)!::pread(events_->fd().get(), text, sizeof text, 0);
    }
    if (all_stand_still())
        return finish({});
    await_change();
}

bool Freezer::all_stand_still() {
    if (version_ == 2)
        return keyed_number_at(folder_, "cgroup.events", "frozen") == 1;
    return read_at(folder_, "freezer.state").starts_with("FROZEN");
}

void Freezer::await_change() {
    if (events_) {
        events_->wait(base::FdWatch::Event::exceptional, [this] { look(); });
        if (all_stand_still()) {
            events_->stop();
            again_ = timers_.arm(base::Millis{0}, [this] {
                again_ = 0;
                finish({});
            });
        }
        return;
    }
    again_ = timers_.arm(pause_, [this] {
        again_ = 0;
        look();
    });
    pause_ = std::min(pause_ * 2, k_longest_pause);
}

// To be called last: the callback may destroy this.
void Freezer::finish(const base::Result<void>& result) {
    stop_waiting();
    if (const auto done = std::exchange(done_, nullptr))
        done(result);
}

base::Result<void> Freezer::thaw() {
    stop_waiting();
    done_ = nullptr;
    if (!std::exchange(asked_, false))
        return {};
    if (const int error_number = set_frozen(folder_, false); error_number != 0)
        return freezer_failed("thawing the sandbox's cgroup", error_number);
    return {};
}

}  // namespace atl::cgroup
