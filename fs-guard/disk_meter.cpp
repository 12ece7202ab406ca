#include "fs-guard/disk_meter.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::fs_guard {
namespace {

// At 1 and above a walk is due.
constexpr double k_due = 1.0;
constexpr double k_at_once = std::numeric_limits<double>::max();
// A user whose last walk is so many walks ago counts as never walked.
constexpr std::uint64_t k_turns_remembered = 4096;
// A workspace at rest waits for so many walks of living sandboxes at most.
constexpr std::uint64_t k_walks_before_rest = 8;

base::Millis elapsed(base::SteadyTime earlier, base::SteadyTime later) {
    return std::chrono::duration_cast<base::Millis>(later - earlier);
}

/// The file system loses less than a workspace grows where others remove files at the same time. So the
/// estimate alone lets nothing in that fills much of the room.
std::uint64_t room_to_be_sure(std::uint64_t bytes) {
    constexpr std::uint64_t k_times = 16;
    constexpr auto k_most = std::numeric_limits<std::uint64_t>::max();
    return bytes > k_most / k_times ? k_most : bytes * k_times;
}

}  // namespace

DiskMeter::DiskMeter(MeterPorts ports, MeterSettings settings)
    : ports_(std::move(ports)), settings_(settings) {}

DiskMeter::~DiskMeter() {
    ports_.timers.cancel(timer_);
}

void DiskMeter::watch(const std::string& id, std::uint64_t limit_bytes, OnExcess on_excess,
                      OnWarning on_warning, DiskEnforcer enforcer,
                      const std::optional<base::ShareHolder>& user) {
    look_at_disk();
    const auto before = found_.find(id);
    Watched watched;
    watched.limit_bytes = limit_bytes;
    watched.allowed_bytes = before == found_.end() ? limit_bytes : std::max(limit_bytes, before->second);
    watched.on_excess = std::move(on_excess);
    watched.on_warning = std::move(on_warning);
    watched.enforcer = enforcer;
    watched.user = user.value_or(base::ShareHolder::thing(id));
    watched.was_over = over_.contains(id);
    watched.lost_before = lost_;
    const auto agreed = agreed_gaps_.find(id);
    watched.agreed_gap =
        agreed == agreed_gaps_.end() ? ledger_.gap() : lower_of(agreed->second, ledger_.gap());
    watched.number = ++last_number_;
    resting_.erase(id);
    let_fit(watched_[id]);
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

void DiskMeter::set_user(const std::string& id, const base::ShareHolder& user) {
    if (const auto found = watched_.find(id); found != watched_.end())
        found->second.user = user;
    if (const auto charged = charged_.find(id); charged != charged_.end())
        charge(id, user, charged->second.amount());
}

bool DiskMeter::is_short() {
    if (watched_.empty())
        look_at_disk();
    return is_short_;
}

bool DiskMeter::is_very_short() {
    if (!is_short())
        return false;
    const double wanted_inodes = static_cast<double>(space_->total_inodes) * settings_.reserve;
    return is_late() || static_cast<double>(space_->free_inodes) * 2 < wanted_inodes;
}

void DiskMeter::measure_at_rest(const std::string& id, const base::ShareHolder& user) {
    if (ports_.files == nullptr || charged_.contains(id) || watched_.contains(id))
        return;
    resting_.emplace(id, user);
    if (timer_ == 0)
        arm(settings_.longest_look);
}

base::Result<void> DiskMeter::room_for(const base::ShareHolder& user) {
    const base::Budget* const files = ports_.files;
    // A workspace without an owner is a user of its own, who has nothing else that could be deleted for it.
    if (files == nullptr || files->user_percent() >= 100 || !user.is_user())
        return {};
    const bool is_out = is_short() || files->used() >= files->spec().total;
    const std::uint64_t held = files->held_by(user);
    const bool has_too_much =
        is_out ? held > files->spec().floor && held >= files->most_held(user) / k_spared_part
               : files->room(user) == 0;
    return has_too_much ? base::Result<void>(files->refusal(user, 0)) : base::Result<void>();
}

void DiskMeter::unwatch(const std::string& id) {
    auto node = watched_.extract(id);
    if (node.empty())
        return;
    Watched& watched = node.mapped();
    let_fit(watched);
    if (is_short_ && watched.grown_while_short > 0)
        grown_before_.push_back({watched.user, watched.grown_bytes, watched.grown_while_short});
    stop_counting(id, watched);
}

/// Its processes have ended, so the files that they held no longer count. What it wrote since the last walk
/// is to be charged, too.
void DiskMeter::stop_counting(const std::string& id, const Watched& watched) {
    agreed_gaps_[id] = watched.agreed_gap;
    if (ports_.files != nullptr)
        resting_.emplace(id, watched.user);
    if (!watched.size || watched.held.inodes == 0)
        return;
    ledger_.found(
        id, {static_cast<std::int64_t>(watched.tree.bytes), static_cast<std::int64_t>(watched.tree.inodes)});
    found_[id] = std::max(watched.tree.bytes, watched.tree.inodes * k_least_bytes_an_inode);
}

std::optional<TreeSize> DiskMeter::size(const std::string& id) const {
    const auto found = watched_.find(id);
    return found == watched_.end() ? std::nullopt : found->second.size;
}

void DiskMeter::check_room(const std::string& id, std::optional<std::uint64_t> bytes, Room done) {
    const auto found = watched_.find(id);
    if (found == watched_.end())
        return ports_.timers.defer([done = std::move(done)] { done(std::nullopt); });
    look_at_disk();
    Watched& watched = found->second;
    // A walk that goes on has begun to count the loss anew.
    const bool is_counted = watched.size && watched.size->is_complete && !(walking_ && walked_id_ == id);
    if (bytes && is_counted && fits(watched, lost_ - watched.lost_before, room_to_be_sure(*bytes)))
        return ports_.timers.defer([done = std::move(done)] { done(std::nullopt); });
    watched.asked.push_back({bytes.value_or(0), std::move(done)});
}

/// True if so many bytes fit beside what the last walk found and what it has grown since then.
bool DiskMeter::fits(const Watched& watched, std::uint64_t grown_bytes, std::uint64_t bytes) {
    const std::uint64_t used = watched.size->bytes + grown_bytes;
    // A workspace that was cleaned up is held to its limit again.
    const std::uint64_t most =
        (used <= watched.limit_bytes ? watched.limit_bytes : watched.allowed_bytes) + k_disk_slack_bytes;
    return used <= most && bytes <= most - used;
}

void DiskMeter::answer_asked(Watched& watched) {
    const TreeSize& size = *watched.size;
    for (Asked& asked : std::exchange(watched.asked_of_walk, {})) {
        std::optional<Verdict> excess;
        // A workspace that was ended over its limit may keep what is there now.
        const bool is_known = size.is_complete && !size.is_too_large && !watched.was_over;
        if (is_known && !fits(watched, 0, asked.bytes)) {
            excess.emplace();
            excess->used_bytes = size.bytes;
            excess->limit_bytes = watched.limit_bytes;
        }
        ports_.timers.defer([done = std::move(asked.done), excess] { done(excess); });
    }
}

/// Nobody can tell any more.
void DiskMeter::let_fit(Watched& watched) {
    for (auto* const list : {&watched.asked, &watched.asked_of_walk})
        for (Asked& asked : std::exchange(*list, {}))
            ports_.timers.defer([done = std::move(asked.done)] { done(std::nullopt); });
}

void DiskMeter::begin_measuring(Watched& watched) {
    walking_ = true;
    walk_began_ = ports_.clock.steady_now();
    watched.lost_before = lost_;
    std::move(watched.asked.begin(), watched.asked.end(), std::back_inserter(watched.asked_of_walk));
    watched.asked.clear();
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
    ledger_.see(*space);
    see_shortage(*space);
    if (ports_.files != nullptr && space->total_bytes > 0) {  // 0: a tmpfs without a bound (tmpfs(5))
        const auto reserve =
            static_cast<std::uint64_t>(static_cast<double>(space->total_bytes) * settings_.reserve);
        ports_.files->set_total(ports_.files->used() + space->free_bytes -
                                std::min(reserve, space->free_bytes));
    }
    return lost;
}

void DiskMeter::look() {
    if (watched_.empty() && resting_.empty())
        return;  // the next watch() starts again
    const auto now = ports_.clock.steady_now();
    const std::uint64_t lost = look_at_disk();
    const auto passed = looked_at_ == base::SteadyTime{} ? settings_.longest_look : elapsed(looked_at_, now);
    looked_at_ = now;
    arm(next_look(lost, passed));
    if (walking_)
        settle_without_walks();
    else
        walk_most_urgent();
}

// Chooses the pause so that about one step is lost elapsed two checks.
base::Millis DiskMeter::next_look(std::uint64_t lost, base::Millis passed) const {
    if (lost == 0)
        return settings_.longest_look;
    const double rate =
        static_cast<double>(lost) / static_cast<double>(std::max<std::int64_t>(passed.count(), 1));
    const base::Millis pause(static_cast<std::int64_t>(static_cast<double>(settings_.least_step) / rate / 2));
    return std::clamp(pause, settings_.shortest_look, settings_.longest_look);
}

double DiskMeter::urgency(const Watched& watched, base::SteadyTime now) const {
    if (!watched.walked || (is_short_ && watched.walk_of_shortage != shortage_) ||
        (is_auditing_ && watched.walk_of_audit != audit_))
        return k_at_once;
    const bool is_inspected = wants_inspection(watched);
    if (is_inspected && now < watched.inspect_from)
        return 0;
    const auto step_bytes = static_cast<double>(step(watched));
    const double by_space = static_cast<double>(lost_ - watched.lost_before) / step_bytes;
    const double by_time = static_cast<double>(elapsed(watched.walked_at, now).count()) /
                           static_cast<double>(settings_.period.count());
    // Others' walks come first, for they may explain it: but not again and again.
    const double by_doubt = is_inspected && watched.is_doubted
                                ? std::max(k_due, static_cast<double>(unexplained(watched)) / step_bytes / 2)
                                : 0;
    // A client that asks again and again gets half of the time of the walks, and none from another client.
    const bool is_asked = !watched.asked.empty() && elapsed(watched.walked_at, now) >= watched.walk_took;
    return std::max({by_space, by_time, by_doubt, is_asked ? k_due + by_time : 0});
}

/// The end where no walk is due. A round of walks of all comes first.
DiskMeter::Entry DiskMeter::most_urgent(base::SteadyTime now) {
    auto most = watched_.end();
    const bool is_round = is_short_ || is_auditing_;
    const bool is_by_turn = last_walk_ % 2 == 1;
    std::tuple<bool, std::uint64_t, double> highest;
    for (auto at = watched_.begin(); at != watched_.end(); ++at) {
        const double urgent = urgency(at->second, now);
        if (urgent < k_due)
            continue;
        const std::tuple rank(is_round && urgent >= k_at_once,
                              is_by_turn ? last_walk_ - turn_of(at->second.user) : 0, urgent);
        if (most == watched_.end() || rank > highest) {
            highest = rank;
            most = at;
        }
    }
    return most;
}

/// The number of the last walk of this user's workspaces; 0: there was none of late.
std::uint64_t DiskMeter::turn_of(const base::ShareHolder& user) const {
    const auto found = turns_.find(user.name());
    return found == turns_.end() ? 0 : found->second;
}

void DiskMeter::take_turn(const base::ShareHolder& user) {
    turns_[user.name()] = ++last_walk_;
    if (turns_.size() > 2 * k_turns_remembered)
        std::erase_if(turns_,
                      [this](const auto& turn) { return turn.second + k_turns_remembered < last_walk_; });
}

// Only one walk runs at a time: two walks of one disk only slow each other down.
void DiskMeter::walk_most_urgent() {
    if (walking_)
        return;
    const bool may_rest = !std::exchange(has_rested_, false);  // or the helper would never be idle
    const auto now = ports_.clock.steady_now();
    auto most = most_urgent(now);
    const bool is_round_over = most == watched_.end() || urgency(most->second, now) < k_at_once;
    if (is_round_over && !watched_.empty() && (is_auditing_ || is_short_)) {
        if (is_auditing_)
            end_audit();
        else if (settle_shortage())
            return;
        most = most_urgent(now);  // that workspace may have been stopped
    }
    const bool is_turn_of_rest =
        most == watched_.end() || last_walk_ - rested_at_walk_ >= k_walks_before_rest;
    if (may_rest && is_turn_of_rest && !(is_short_ && is_late()) && walk_resting())
        return;
    if (most == watched_.end())
        return;
    take_turn(most->second.user);
    if (wants_inspection(most->second))
        inspect(most);
    else
        walk(most);
}

/// True if there was one to walk.
bool DiskMeter::walk_resting() {
    auto next = resting_.upper_bound(last_rested_);
    if (next == resting_.end())
        next = resting_.begin();
    if (next == resting_.end())
        return false;
    has_rested_ = true;
    rested_at_walk_ = last_walk_;
    walking_ = true;
    walk_began_ = ports_.clock.steady_now();
    walked_id_ = last_rested_ = next->first;
    ports_.walk(last_rested_,
                [this, alive = std::weak_ptr<int>(alive_), id = last_rested_](const auto& result) {
                    if (!alive.expired())
                        on_rested(id, result);
                });
    return true;
}

void DiskMeter::walk(Entry entry) {
    walked_id_ = entry->first;
    Watched& watched = entry->second;
    begin_measuring(watched);
    ports_.walk(entry->first, [this, alive = std::weak_ptr<int>(alive_), id = entry->first,
                               number = watched.number, audit = audit_](const auto& result) {
        if (!alive.expired())
            on_walked(id, number, audit, result);
    });
}

void DiskMeter::inspect(Entry entry) {
    walked_id_ = entry->first;
    Watched& watched = entry->second;
    begin_measuring(watched);
    ports_.inspect(entry->first,
                   [this, alive = std::weak_ptr<int>(alive_), id = entry->first, number = watched.number,
                    audit = audit_, began = ports_.clock.steady_now()](const auto& result) {
                       if (!alive.expired())
                           on_inspected(id, number, audit, began, result);
                   });
}

}  // namespace atl::fs_guard
