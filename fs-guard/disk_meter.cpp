#include "fs-guard/disk_meter.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::fs_guard {
namespace {

// A tree that moves under a walk may once leave something out; one that always does hides something.
constexpr int k_most_incomplete_walks = 20;
// At 1 and above a walk is due.
constexpr double k_due = 1.0;
// Between two rounds of walks while the reserve is not free.
constexpr base::Millis k_round_pause{500};
constexpr double k_at_once = std::numeric_limits<double>::max();

base::Millis between(base::SteadyTime earlier, base::SteadyTime later) {
    return std::chrono::duration_cast<base::Millis>(later - earlier);
}

}  // namespace

DiskMeter::DiskMeter(MeterPorts ports, MeterSettings settings)
    : ports_(std::move(ports)), settings_(settings) {}

DiskMeter::~DiskMeter() {
    ports_.timers.cancel(timer_);
}

void DiskMeter::watch(const std::string& id, std::uint64_t limit_bytes, OnExcess on_excess,
                      OnWarning on_warning, Wall wall) {
    const auto before = found_.find(id);
    Watched watched;
    watched.limit_bytes = limit_bytes;
    watched.allowed_bytes = before == found_.end() ? limit_bytes : std::max(limit_bytes, before->second);
    watched.on_excess = std::move(on_excess);
    watched.on_warning = std::move(on_warning);
    watched.wall = wall;
    watched.was_over = over_.contains(id);
    watched.lost_before = lost_;
    watched.number = ++last_number_;
    watched_[id] = std::move(watched);
    if (timer_ == 0)
        arm(base::Millis{0});
}

void DiskMeter::set_limit(const std::string& id, std::uint64_t limit_bytes) {
    const auto found = watched_.find(id);
    if (found == watched_.end())
        return;
    Watched& watched = found->second;
    watched.limit_bytes = limit_bytes;
    watched.allowed_bytes = std::max(limit_bytes, watched.size ? watched.size->bytes : 0);
    watched.warned = false;
}

bool DiskMeter::is_short() {
    if (watched_.empty())
        look_at_disk();
    return is_short_;
}

void DiskMeter::unwatch(const std::string& id) {
    watched_.erase(id);
}

std::optional<TreeSize> DiskMeter::size(const std::string& id) const {
    const auto found = watched_.find(id);
    return found == watched_.end() ? std::nullopt : found->second.size;
}

void DiskMeter::arm(base::Millis pause) {
    timer_ = ports_.timers.arm(pause, [this] {
        timer_ = 0;
        look();
    });
}

/// How much the file system lost since the last look.
std::uint64_t DiskMeter::look_at_disk() {
    const auto space = ports_.look();
    if (!space)
        return 0;
    std::uint64_t lost = 0;
    if (space_ && space->free_bytes < space_->free_bytes)
        lost = space_->free_bytes - space->free_bytes;
    if (space_ && space->free_inodes < space_->free_inodes)
        lost += (space_->free_inodes - space->free_inodes) * k_least_bytes_an_inode;
    lost_ += lost;
    space_ = space;
    see_shortage(*space);
    return lost;
}

void DiskMeter::look() {
    if (watched_.empty())
        return;  // the next watch() goes on
    const auto now = ports_.clock.steady_now();
    const std::uint64_t lost = look_at_disk();
    const auto passed = looked_at_ == base::SteadyTime{} ? settings_.longest_look : between(looked_at_, now);
    looked_at_ = now;
    arm(next_look(lost, passed));
    walk_most_urgent();
}

// So that about one step is lost between two looks.
base::Millis DiskMeter::next_look(std::uint64_t lost, base::Millis passed) const {
    if (lost == 0)
        return settings_.longest_look;
    const double rate =
        static_cast<double>(lost) / static_cast<double>(std::max<std::int64_t>(passed.count(), 1));
    const base::Millis pause(static_cast<std::int64_t>(static_cast<double>(settings_.least_step) / rate / 2));
    return std::clamp(pause, settings_.shortest_look, settings_.longest_look);
}

double DiskMeter::urgency(const Watched& watched, base::SteadyTime now) const {
    if (!watched.walked || (is_short_ && watched.walk_of_shortage != shortage_))
        return k_at_once;
    const std::uint64_t used = watched.size ? watched.size->bytes : 0;
    const std::uint64_t room = watched.allowed_bytes - std::min(used, watched.allowed_bytes);
    const double step = static_cast<double>(std::max(room / 2, settings_.least_step));
    const double by_space = static_cast<double>(lost_ - watched.lost_before) / step;
    const double by_time = static_cast<double>(between(watched.walked_at, now).count()) /
                           static_cast<double>(settings_.period.count());
    return std::max(by_space, by_time);
}

// One at a time: two walks of one disk only slow each other down.
void DiskMeter::walk_most_urgent() {
    if (walking_)
        return;
    const auto now = ports_.clock.steady_now();
    auto most = watched_.end();
    double highest = 0;
    for (auto at = watched_.begin(); at != watched_.end(); ++at) {
        const double urgent = urgency(at->second, now);
        if (urgent >= k_due && urgent > highest) {
            highest = urgent;
            most = at;
        }
    }
    if (most == watched_.end()) {
        if (is_short_)
            stop_fastest();
        return;
    }
    walking_ = true;
    Watched& watched = most->second;
    watched.lost_before = lost_;
    ports_.walk(most->first, [this, alive = std::weak_ptr<int>(alive_), id = most->first,
                              number = watched.number](const auto& result) {
        if (!alive.expired())
            on_walked(id, number, result);
    });
}

void DiskMeter::on_walked(const std::string& id, std::uint64_t number, const base::Result<TreeSize>& result) {
    walking_ = false;
    const auto found = watched_.find(id);
    if (found != watched_.end() && found->second.number == number) {
        Watched& watched = found->second;
        watched.walked = true;
        watched.walked_at = ports_.clock.steady_now();
        watched.walk_of_shortage = shortage_;
        if (result) {
            take_size(id, watched, *result);
            judge(id);
        } else {
            base::LogLine(base::evt::disk_unmetered)
                .field("sbx", id)
                .quoted("err", result.error().detail())
                .warn();
        }
    }
    if (!watched_.empty())
        walk_most_urgent();
}

void DiskMeter::take_size(const std::string& id, Watched& watched, TreeSize size) {
    // Every inode needs some room, whatever is in it.
    size.bytes = std::max(size.bytes, size.inodes * k_least_bytes_an_inode);
    if (size.is_complete) {
        watched.incomplete_walks = 0;
    } else {
        // There is more than was seen: no less than before, and it is walked again at once.
        ++watched.incomplete_walks;
        size.bytes = std::max(size.bytes, watched.size ? watched.size->bytes : 0);
        watched.walked_at -= settings_.period;
    }
    const std::uint64_t before = watched.size ? watched.size->bytes : watched_before(id, size.bytes);
    watched.grown_bytes = size.bytes > before ? size.bytes - before : 0;
    watched.size = size;
    found_[id] = size.bytes;
}

/// For the first walk of a watch: what the last one of an earlier watch found, else `now`.
std::uint64_t DiskMeter::watched_before(const std::string& id, std::uint64_t now) const {
    const auto found = found_.find(id);
    return found == found_.end() ? now : found->second;
}

// Last call on this workspace: who is told may unwatch it.
void DiskMeter::judge(const std::string& id) {
    Watched& watched = watched_.at(id);
    const std::uint64_t used = watched.size->bytes;
    if (std::exchange(watched.was_over, false)) {
        over_.erase(id);
        watched.allowed_bytes = std::max(watched.allowed_bytes, used);
    }
    if (watched.wall == Wall::none && used > watched.allowed_bytes + k_disk_slack_bytes) {
        report(id, DiskExcess::limit);
        return;
    }
    if (watched.incomplete_walks >= k_most_incomplete_walks) {
        report(id, DiskExcess::unmeasurable);
        return;
    }
    // One that was cleaned up has no more than its limit again.
    if (used <= watched.limit_bytes)
        watched.allowed_bytes = watched.limit_bytes;
    const bool is_high =
        static_cast<double>(used) >= static_cast<double>(watched.limit_bytes) * settings_.warn_at;
    if (is_high && !std::exchange(watched.warned, true) && watched.on_warning) {
        const auto tell = watched.on_warning;
        tell(used, watched.limit_bytes);
        return;
    }
    if (!is_high)
        watched.warned = false;
}

void DiskMeter::report(const std::string& id, DiskExcess why) {
    const auto node = watched_.extract(id);
    if (why == DiskExcess::limit)
        over_.insert(id);
    const Watched& watched = node.mapped();
    watched.on_excess({why, watched.size ? watched.size->bytes : 0, watched.limit_bytes});
}

void DiskMeter::see_shortage(const FreeSpace& space) {
    const double wanted = static_cast<double>(space.total_bytes) * settings_.reserve;
    const double wanted_inodes = static_cast<double>(space.total_inodes) * settings_.reserve;
    const bool is_now = static_cast<double>(space.free_bytes) < wanted ||
                        static_cast<double>(space.free_inodes) < wanted_inodes;
    const bool was_short = std::exchange(is_short_, is_now);
    if (!is_short_ || was_short)
        return;
    ++shortage_;
    base::LogLine(base::evt::disk_short)
        .field("free_mb", static_cast<std::int64_t>(space.free_bytes >> 20))
        .field("reserve_mb", static_cast<std::int64_t>(wanted) >> 20)
        .field("free_inodes", static_cast<std::int64_t>(space.free_inodes))
        .warn();
}

// Once all have been walked. If it was not this one, the next round finds the next.
void DiskMeter::stop_fastest() {
    const auto now = ports_.clock.steady_now();
    if (judged_shortage_ == shortage_) {
        if (between(round_ended_, now) >= k_round_pause)
            ++shortage_;
        return;
    }
    judged_shortage_ = shortage_;
    round_ended_ = now;
    const auto fastest =
        std::ranges::max_element(watched_, {}, [](const auto& entry) { return entry.second.grown_bytes; });
    if (fastest != watched_.end() && fastest->second.grown_bytes >= settings_.least_step)
        report(std::string(fastest->first), DiskExcess::reserve);
}

}  // namespace atl::fs_guard
