#include "cgroup/memory_watch.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cgroup/files.hpp"
#include "core/base/limits.hpp"

namespace atl::cgroup {
namespace {

using Event = base::FdWatch::Event;

constexpr base::Millis k_begin_pause{100};
constexpr base::Millis k_usage_interval{1000};
constexpr base::Millis k_harmless_pressure_pause{1000};
// 150 ms of waiting in one second (Documentation/accounting/psi.rst).
constexpr const char* k_pressure_trigger = "some 150000 1000000";

/// The trigger exists as long as the file is open.
base::UniqueFd open_pressure_v2(int folder) {
    base::UniqueFd file(::openat(folder, "memory.pressure", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    const std::string_view trigger(k_pressure_trigger);
    if (!file || ::write(file.get(), trigger.data(), trigger.size() + 1) < 0)
        return {};
    return file;
}

base::UniqueFd open_pressure_v1(int folder) {
    base::UniqueFd events(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const base::UniqueFd level(::openat(folder, "memory.pressure_level", O_RDONLY | O_CLOEXEC));
    if (!events || !level)
        return {};
    const std::string line = std::to_string(events.get()) + " " + std::to_string(level.get()) + " medium";
    return write_at(folder, "cgroup.event_control", line) == 0 ? std::move(events) : base::UniqueFd();
}

}  // namespace

MemoryWatch::MemoryWatch(const base::Executor& executor, base::Timers& timers, ControllerFolder folder,
                         std::uint64_t limit_bytes, sandbox::MemoryWarning on_warning)
    : executor_(executor),
      timers_(timers),
      folder_(folder),
      limit_bytes_(limit_bytes),
      on_warning_(std::move(on_warning)) {
    begin_ = timers_.arm(k_begin_pause, [this] {
        begin_ = 0;
        begin();
    });
}

MemoryWatch::~MemoryWatch() {
    for (const base::TimerId timer : {begin_, usage_rest_, mark_rest_, pressure_rest_})
        timers_.cancel(timer);
}

void MemoryWatch::begin() {
    if (folder_.version == 2) {
        watch_mark();
    } else {
        watch_usage();
        watch_pressure();
    }
    look();
}

std::uint64_t MemoryWatch::mark_bytes() const {
    return limit_bytes_ / 100 * base::k_memory_warning_percent;
}

void MemoryWatch::set_limit(std::uint64_t limit_bytes) {
    if (std::exchange(limit_bytes_, limit_bytes) == limit_bytes || begin_ != 0)
        return;
    timers_.cancel(std::exchange(mark_rest_, 0));
    if (folder_.version == 2)
        watch_mark();
}

// On v1 this reads one small file; the other files are read only beyond the mark.
void MemoryWatch::watch_usage() {
    rest(usage_rest_, k_usage_interval, [this] {
        if (mark_rest_ == 0 && number_at(folder_.folder, "memory.usage_in_bytes").value_or(0) >= mark_bytes())
            look();
        watch_usage();
    });
}

/// Used on v2. False if the group uses the mark or more, cached files included: the write would then wait
/// until the kernel has reclaimed what is above the mark.
bool MemoryWatch::set_mark() const {
    const auto used = number_at(folder_.folder, "memory.current");
    if (!used || *used >= mark_bytes())
        return false;
    (void)write_at(folder_.folder, "memory.high", std::to_string(mark_bytes()));
    return true;
}

void MemoryWatch::rest_of_mark() {
    rest(mark_rest_, base::k_memory_warning_interval, [this] {
        if (folder_.version == 2 && !set_mark())
            rest_of_mark();
    });
}

void MemoryWatch::watch_mark() {
    mark_.reset();
    awaits_mark_ = false;
    base::UniqueFd events(::openat(folder_.folder, "memory.events", O_RDONLY | O_CLOEXEC));
    if (!events)
        return;
    mark_.emplace(executor_, std::move(events));
    (void)set_mark();
    on_mark();
}

void MemoryWatch::watch_pressure() {
    if (pressure_)
        return;
    auto fd = folder_.version == 2 ? open_pressure_v2(folder_.folder) : open_pressure_v1(folder_.folder);
    if (!fd)
        return;
    pressure_.emplace(executor_, std::move(fd));
    await_pressure();
}

// Emptied before the look, so that nothing in between is missed.
void MemoryWatch::on_mark() {
    char bytes[4096];
    (void)!::pread(mark_->fd().get(), bytes, sizeof bytes, 0);
    look();
    await_mark();
}

void MemoryWatch::await_mark() {
    if (std::exchange(awaits_mark_, true))
        return;
    mark_->wait(Event::exceptional, [this] {
        awaits_mark_ = false;
        on_mark();
    });
}

// A v2 trigger fires once a window while the pressure lasts; a v1 eventfd fires whenever the kernel had to
// reclaim. A process that writes files faster than the disk also makes the kernel reclaim, but it is not
// short of memory.
void MemoryWatch::on_pressure() {
    const std::uint64_t held = held_bytes();
    const bool is_short = held >= limit_bytes_ / 2;
    rest(pressure_rest_, is_short ? base::k_memory_warning_interval : k_harmless_pressure_pause, [this] {
        // An event during the rest is outdated.
        std::uint64_t count = 0;
        if (folder_.version == 1)
            (void)!::read(pressure_->fd().get(), &count, sizeof count);
        await_pressure();
    });
    look();
    if (is_short)
        tell("memory_pressure", held);
}

void MemoryWatch::await_pressure() {
    pressure_->wait(folder_.version == 2 ? Event::exceptional : Event::readable, [this] { on_pressure(); });
}

/// For v2: from the first time that members reach the mark, the kernel holds them at it, so their usage does
/// not show that they reached it.
bool MemoryWatch::mark_was_met() {
    if (folder_.version == 1)
        return false;
    const auto met = keyed_number_at(folder_.folder, "memory.events", "high").value_or(0);
    return std::exchange(times_met_, met) != met;
}

void MemoryWatch::look() {
    const std::uint64_t held = held_bytes();
    const bool was_met = mark_was_met();
    if (was_met) {
        // The mark is lifted: members above it must not be throttled. From here on only the limit applies.
        (void)write_at(folder_.folder, "memory.high", "max");
        watch_pressure();
    }
    const std::uint64_t slack = was_met ? mark_bytes() / 16 : 0;
    const bool is_high = held + slack >= mark_bytes();
    if (mark_rest_ != 0 || (!is_high && !was_met))
        return;
    rest_of_mark();
    if (is_high)
        tell("memory", held);
}

void MemoryWatch::rest(base::TimerId& timer, base::Millis how_long, std::function<void()> then) {
    timers_.cancel(timer);
    timer = timers_.arm(how_long, [&timer, then = std::move(then)] {
        timer = 0;
        then();
    });
}

std::uint64_t MemoryWatch::held_bytes() const {
    return read_held_bytes(folder_).value_or(0);
}

void MemoryWatch::tell(std::string_view resource, std::uint64_t used_bytes) {
    on_warning_(resource, used_bytes, limit_bytes_);
}

}  // namespace atl::cgroup
