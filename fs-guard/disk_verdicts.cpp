// The part of DiskMeter that judges walks and inspections: which workspace grew, and which one is stopped.
#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "fs-guard/disk_meter.hpp"

namespace atl::fs_guard {
namespace {

constexpr std::uint64_t k_bytes_per_limit_mb = 1024UL * 1024;
// A walk of a tree that changes meanwhile may miss files once. If every walk does, the tree hides something.
constexpr int k_most_incomplete_walks = 20;
// Descriptors are in flight for microseconds, unless they are kept there.
constexpr int k_veiled_inspections = 3;
constexpr base::Millis k_veiled_time{100};
// After this many failed stops of a sandbox, its inspections are trusted as far as they saw.
constexpr int k_most_failed_inspections = 4;
// A sandbox stands still a third of the time at most. A large tree does not extend this rest.
constexpr base::Millis k_least_rest{20};
constexpr base::Millis k_longest_rest{2'000};
// Between two rounds of walks while the reserve is not free, or bytes are unexplained.
constexpr base::Millis k_round_pause{500};
// A workspace over its limit may overshoot so often without a rest: a user may need more than one try to
// clean up.
constexpr int k_relapses_without_rest = 3;
constexpr base::Millis k_first_relapse_rest{60'000};
constexpr base::Millis k_longest_relapse_rest{3'600'000};
// Once half the reserve is gone: how long one walk, and a round of walks, may take.
constexpr base::Millis k_late_patience{200};
constexpr base::Millis k_longest_late_round{2'000};
// The pause before all are inspected again, after a round without an offender.
constexpr base::Millis k_pause_in_vain{30'000};

base::Millis time_between(base::SteadyTime earlier, base::SteadyTime later) {
    return std::chrono::duration_cast<base::Millis>(later - earlier);
}

// Every inode needs some room, however small its file is.
std::uint64_t cost(const TreeSize& size) {
    return std::max(size.bytes, size.inodes * k_least_bytes_an_inode);
}

void log_unmetered(const std::string& id, const base::Error& error) {
    base::LogLine(base::evt::disk_unmetered).field("sbx", id).quoted("err", error.detail()).warn();
}

}  // namespace

/// Null if this answer is outdated.
DiskMeter::Watched* DiskMeter::answered(const std::string& id, std::uint64_t number, std::uint64_t audit) {
    walking_ = false;
    look_at_disk();
    const auto found = watched_.find(id);
    if (found == watched_.end() || found->second.number != number)
        return nullptr;
    Watched& watched = found->second;
    watched.walked = true;
    watched.walked_at = ports_.clock.steady_now();
    watched.walk_took = time_between(walk_began_, watched.walked_at);
    watched.walk_of_shortage = shortage_;
    watched.walk_of_audit = audit;
    return &watched;
}

void DiskMeter::on_walked(const std::string& id, std::uint64_t number, std::uint64_t audit,
                          const base::Result<TreeSize>& result) {
    Watched* watched = answered(id, number, audit);
    if (watched != nullptr && result) {
        watched->tree = *result;
        take_size(id, *watched);
        watched->agreed_gap = lower_of(watched->agreed_gap, ledger_.gap());
        watched->is_doubted =
            (!result->is_complete && !result->is_too_large) || unexplained(*watched) >= step(*watched);
        answer_asked(*watched);
        judge(id);
    } else if (watched != nullptr) {
        let_fit(*watched);
        log_unmetered(id, result.error());
    }
    if (!watched_.empty())
        walk_most_urgent();
}

void DiskMeter::on_inspected(const std::string& id, std::uint64_t number, std::uint64_t audit,
                             base::SteadyTime began, const base::Result<Inspection>& result) {
    Watched* watched = answered(id, number, audit);
    if (watched != nullptr && result) {
        watched->tree = result->tree;
        watched->held = result->held;
        take_size(id, *watched);
        take_inspection(*watched, *result, began);
        begin_audit(*watched);
        answer_asked(*watched);
        judge(id);
    } else if (watched != nullptr) {
        let_fit(*watched);
        watched->inspection_of_shortage = shortage_;
        watched->is_doubted = false;
        log_unmetered(id, result.error());
    }
    if (!watched_.empty())
        walk_most_urgent();
}

/// Where it was removed meanwhile, or is watched again, there is nothing to charge.
void DiskMeter::on_rested(const std::string& id, const base::Result<TreeSize>& result) {
    walking_ = false;
    look_at_disk();
    const auto rested = resting_.extract(id);
    if (!rested.empty() && result) {
        const std::uint64_t least = result->is_complete ? 0 : charged_[id].amount();
        charge(id, rested.mapped(), std::max(cost(*result), least));
    }
    walk_most_urgent();
}

/// Never refused: the bytes are there.
void DiskMeter::charge(const std::string& id, const base::ShareHolder& user, std::uint64_t bytes) {
    if (ports_.files == nullptr)
        return;
    const std::uint64_t before = ports_.files->used();
    base::Share& charged = charged_[id];
    charged = {};
    charged = ports_.files->take(user, 0).value();
    charged.charge(bytes);
    ports_.files->set_total(ports_.files->spec().total - before + ports_.files->used());  // as much is free
}

void DiskMeter::take_inspection(Watched& watched, const Inspection& found, base::SteadyTime began) {
    const auto now = ports_.clock.steady_now();
    watched.inspect_from = now + std::clamp(time_between(began, now) * 2, k_least_rest, k_longest_rest);
    watched.inspection_of_shortage = shortage_;
    watched.wrote_bytes = found.written_bytes - std::min(found.written_bytes, watched.written_bytes);
    watched.written_bytes = found.written_bytes;
    const bool is_exact = found.stood_still && found.tree.is_complete;
    watched.failed_inspections = is_exact ? 0 : watched.failed_inspections + 1;
    if (!is_exact || found.out_of_sight == 0)
        watched.veiled_inspections = 0;
    else if (++watched.veiled_inspections == 1)
        watched.veiled_at = now;
    watched.is_clear = is_exact && found.out_of_sight == 0;
    if (watched.is_clear || watched.failed_inspections >= k_most_failed_inspections) {
        watched.agreed_gap = ledger_.gap();
        watched.agreed_written_bytes = watched.written_bytes;
        watched.failed_inspections = 0;
    }
    watched.agreed_gap = lower_of(watched.agreed_gap, ledger_.gap());
    watched.is_doubted = unexplained(watched) >= step(watched);
}

void DiskMeter::take_size(const std::string& id, Watched& watched) {
    const TreeSize& tree = watched.tree;
    TreeSize size{tree.bytes + watched.held.bytes, tree.inodes + watched.held.inodes, tree.is_complete,
                  tree.is_too_large};
    ledger_.found(id, {static_cast<std::int64_t>(size.bytes), static_cast<std::int64_t>(size.inodes)});
    size.bytes = cost(size);
    if (size.is_complete) {
        watched.incomplete_walks = 0;
    } else {
        // There is more than was seen: no less than before, and it is walked again at once.
        size.bytes = std::max(size.bytes, watched.size ? watched.size->bytes : 0);
        if (!size.is_too_large) {
            ++watched.incomplete_walks;
            watched.walked_at -= settings_.period;
        }
    }
    const std::uint64_t before = watched.size ? watched.size->bytes : watched_before(id, size.bytes);
    const std::uint64_t grown = size.bytes > before ? size.bytes - before : 0;
    watched.grown_bytes = (is_short_ ? watched.grown_bytes : 0) + grown;
    watched.grown_while_short = (is_short_ ? watched.grown_while_short : 0) + grown;
    watched.size = size;
    found_[id] = size.bytes;
    charge(id, watched.user, size.bytes);
}

/// For the first walk of a watch: the size at the last walk of an earlier watch, or `now` without one.
std::uint64_t DiskMeter::watched_before(const std::string& id, std::uint64_t now) const {
    const auto found = found_.find(id);
    return found == found_.end() ? now : found->second;
}

std::uint64_t DiskMeter::room(const Watched& watched) {
    if (watched.size && watched.size->is_too_large)
        return 0;  // nobody knows what is left of it
    const std::uint64_t used = watched.size ? watched.size->bytes : 0;
    return watched.allowed_bytes - std::min(used, watched.allowed_bytes);
}

/// The file system's loss after which a walk of this workspace is due.
std::uint64_t DiskMeter::step(const Watched& watched) const {
    return std::max(room(watched) / 2, settings_.least_step);
}

std::uint64_t DiskMeter::unexplained(const Watched& watched) const {
    return growth_of_gap(watched.agreed_gap, ledger_.gap());
}

bool DiskMeter::wants_inspection(const Watched& watched) const {
    if (!ports_.inspect || watched.enforcer != DiskEnforcer::none || !watched.walked)
        return false;
    // A walk of another workspace may have explained the loss meanwhile.
    const bool is_doubted =
        watched.is_doubted && (!watched.tree.is_complete || unexplained(watched) >= step(watched));
    return is_doubted || cost(watched.held) >= k_disk_slack_bytes;
}

// To be called last for this workspace: the callback may unwatch it.
void DiskMeter::judge(const std::string& id) {
    Watched& watched = watched_.at(id);
    const std::uint64_t used = watched.size->bytes;
    if (std::exchange(watched.was_over, false)) {
        over_.erase(id);
        watched.allowed_bytes = std::max(watched.allowed_bytes, used);
        watched.may_be_large_until = watched.walked_at + settings_.period;
        watched.lost_before_large = watched.lost_before;
    }
    if (watched.enforcer == DiskEnforcer::none && used > watched.allowed_bytes + k_disk_slack_bytes) {
        report(id, DiskExcess::limit);
        return;
    }
    if (watched.size->is_too_large) {
        if (watched.walked_at >= watched.may_be_large_until ||
            lost_ - watched.lost_before_large >= settings_.least_step)
            report(id, DiskExcess::too_large);
        return;
    }
    watched.may_be_large_until = {};
    if (watched.incomplete_walks >= k_most_incomplete_walks) {
        report(id, DiskExcess::unmeasurable);
        return;
    }
    // A workspace that was cleaned up is held to its limit again.
    if (used <= watched.limit_bytes) {
        watched.allowed_bytes = watched.limit_bytes;
        relapses_.erase(id);
    }
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
    auto node = watched_.extract(id);
    Watched& watched = node.mapped();
    let_fit(watched);
    const bool began_over = watched.allowed_bytes > watched.limit_bytes;
    const bool is_relapse = why == DiskExcess::too_large || (why == DiskExcess::limit && began_over);
    const auto pause = is_relapse ? note_relapse(id, why) : base::Millis{0};
    const Verdict verdict{why,
                          watched.size ? watched.size->bytes : 0,
                          watched.limit_bytes,
                          watched.held.bytes,
                          unexplained(watched),
                          watched.wrote_bytes,
                          pause};
    if (why == DiskExcess::limit || why == DiskExcess::too_large)
        over_.insert(id);
    stop_counting(id, watched);
    watched.on_excess(verdict);
}

/// How long it rests.
base::Millis DiskMeter::note_relapse(const std::string& id, DiskExcess why) {
    Relapses& relapses = relapses_[id];
    relapses.why = why;
    base::Millis rest{0};
    if (++relapses.count > k_relapses_without_rest)
        rest = k_first_relapse_rest;
    for (int more = relapses.count - k_relapses_without_rest; more > 1 && rest < k_longest_relapse_rest;
         --more)
        rest *= 2;
    rest = std::min(rest, k_longest_relapse_rest);
    relapses.rests_until = ports_.clock.steady_now() + rest;
    return rest;
}

base::Millis DiskMeter::may_start_in(const std::string& id, std::uint64_t limit_bytes) const {
    const auto relapses = relapses_.find(id);
    const auto size = found_.find(id);
    const bool fits = size == found_.end() || size->second <= limit_bytes;
    if (relapses == relapses_.end() || (fits && relapses->second.why == DiskExcess::limit))
        return base::Millis{0};
    return std::max(base::Millis{0}, time_between(ports_.clock.steady_now(), relapses->second.rests_until));
}

/// The unexplained rest would exceed its limit, and it keeps descriptors in flight.
bool DiskMeter::is_suspect(const Watched& watched) const {
    return watched.veiled_inspections >= k_veiled_inspections &&
           time_between(watched.veiled_at, watched.walked_at) >= k_veiled_time &&
           unexplained(watched) > room(watched) + k_disk_slack_bytes;
}

void DiskMeter::begin_audit(const Watched& watched) {
    if (is_auditing_ || !is_suspect(watched) ||
        time_between(audited_at_, ports_.clock.steady_now()) < k_round_pause)
        return;
    is_auditing_ = true;
    ++audit_;
}

// All have been walked since the audit began: the bytes that are still unexplained are in no workspace.
void DiskMeter::end_audit() {
    is_auditing_ = false;
    audited_at_ = ports_.clock.steady_now();
    const auto wrote = [](const Watched& watched) {
        return watched.written_bytes - std::min(watched.written_bytes, watched.agreed_written_bytes);
    };
    auto most = watched_.end();
    for (auto at = watched_.begin(); at != watched_.end(); ++at) {
        if (is_suspect(at->second) && (most == watched_.end() || wrote(at->second) > wrote(most->second)))
            most = at;
    }
    if (most == watched_.end())
        return;
    most->second.wrote_bytes = wrote(most->second);
    report(std::string(most->first), DiskExcess::out_of_sight);
}

void DiskMeter::see_shortage(const FreeSpace& space) {
    const double wanted = static_cast<double>(space.total_bytes) * settings_.reserve;
    const double wanted_inodes = static_cast<double>(space.total_inodes) * settings_.reserve;
    const bool is_now = static_cast<double>(space.free_bytes) < wanted ||
                        static_cast<double>(space.free_inodes) < wanted_inodes;
    const bool was_short = std::exchange(is_short_, is_now);
    if (!is_short_ || was_short)
        return;
    grown_before_.clear();
    begin_round();
    in_vain_at_.reset();
    told_in_vain_ = false;
    base::LogLine(base::evt::disk_short)
        .field("free_mb", static_cast<std::int64_t>(space.free_bytes / k_bytes_per_limit_mb))
        .field("reserve_mb",
               static_cast<std::int64_t>(wanted) / static_cast<std::int64_t>(k_bytes_per_limit_mb))
        .field("free_inodes", static_cast<std::int64_t>(space.free_inodes))
        .warn();
}

void DiskMeter::begin_round() {
    ++shortage_;
    round_began_ = ports_.clock.steady_now();
    lost_before_round_ = lost_;
}

void DiskMeter::end_round() {
    judged_shortage_ = shortage_;
    round_ended_ = ports_.clock.steady_now();
    has_spared_ = spared_below() > 0;
    for (auto& [id, watched] : watched_)
        watched.grown_bytes = 0;
    for (Grown& before : grown_before_)
        before.in_round = 0;
}

/// Who was spared until now is not waited for.
bool DiskMeter::may_begin_round(base::SteadyTime now) const {
    return time_between(round_ended_, now) >= k_round_pause || (has_spared_ && spared_below() == 0);
}

// Called once all have been walked. If stopping one workspace does not help, the next round stops the next
// one. True if an inspection of this round is under way.
bool DiskMeter::settle_shortage() {
    const auto now = ports_.clock.steady_now();
    if (judged_shortage_ == shortage_) {
        if (may_begin_round(now))
            begin_round();
        return false;
    }
    const auto found = fastest(spared_below());
    const bool is_spared_growth = found.ids.empty() && is_explained_by(fastest(0));
    const bool is_explained = is_spared_growth || is_explained_by(found);
    const auto next = is_explained && !is_inspecting_all_ ? watched_.end() : next_inspection_of_shortage();
    is_inspecting_all_ = next != watched_.end();
    if (is_inspecting_all_) {
        inspect(next);
        return true;
    }
    if (is_late())
        stop_all_that_grew();
    else if (!found.ids.empty())
        stop_for_shortage(found.ids, DiskExcess::reserve);
    else if (!is_spared_growth)
        blame_the_hidden();
    end_round();
    return false;
}

bool DiskMeter::is_explained_by(const base::Victims& grown) const {
    return !grown.ids.empty() && grown.total >= unexplained(watched_.at(grown.ids.front()));
}

// Called while a walk goes on: the disk may be full before it is done.
void DiskMeter::settle_without_walks() {
    const auto now = ports_.clock.steady_now();
    if (!is_short_ || !is_late())
        return;
    if (judged_shortage_ == shortage_) {
        if (may_begin_round(now))
            begin_round();
        return;
    }
    const std::uint64_t lost = lost_ - lost_before_round_;
    if (time_between(round_began_, now) < k_late_patience || lost < least_blame())
        return;
    std::uint64_t explained = 0;
    for (const auto& [id, watched] : watched_)
        explained += watched.walk_of_shortage == shortage_ ? watched.grown_bytes : 0;
    const auto slowest = slowest_unmeasured(now);
    if (explained >= lost / 2)
        stop_all_that_grew();
    else if (slowest != watched_.end())
        stop_for_shortage({slowest->first}, DiskExcess::reserve_unmeasured);
    else
        return;
    end_round();
}

/// The workspace whose walk lasts; after a long round of short walks the one with most entries that was not
/// walked. Otherwise the end.
DiskMeter::Entry DiskMeter::slowest_unmeasured(base::SteadyTime now) {
    auto slowest = watched_.end();
    if (time_between(walk_began_, now) >= k_late_patience)
        slowest = watched_.find(walked_id_);
    if (slowest != watched_.end() || time_between(round_began_, now) < k_longest_late_round)
        return slowest;
    const auto entries = [](const Watched& watched) { return watched.size ? watched.size->inodes : 0; };
    for (auto at = watched_.begin(); at != watched_.end(); ++at) {
        if (at->second.walk_of_shortage != shortage_ &&
            (slowest == watched_.end() || entries(at->second) > entries(slowest->second)))
            slowest = at;
    }
    return slowest;
}

/// Growth below this counts as no offence.
std::uint64_t DiskMeter::least_blame() const {
    const double reserve = space_ ? static_cast<double>(space_->total_bytes) * settings_.reserve : 0;
    return std::max(k_disk_slack_bytes,
                    std::min(static_cast<std::uint64_t>(reserve / 4), settings_.least_step));
}

/// Users who hold less are spared; 0: nobody is.
std::uint64_t DiskMeter::spared_below() const {
    const bool is_nearly_out = space_ && static_cast<double>(space_->free_bytes) * 4 <
                                             static_cast<double>(space_->total_bytes) * settings_.reserve;
    return ports_.files == nullptr || is_nearly_out
               ? 0
               : ports_.files->most_held(base::ShareHolder::thing("")) / k_spared_part;
}

bool DiskMeter::is_spared(const base::ShareHolder& user, std::uint64_t spared_below) const {
    return spared_below > 0 && ports_.files->held_by(user) < spared_below;
}

template <class Amount>
std::vector<base::Taking> DiskMeter::takings(std::uint64_t spared_below, Amount amount_of) const {
    std::vector<base::Taking> all;
    for (const auto& [id, watched] : watched_) {
        if (!is_spared(watched.user, spared_below))
            all.push_back({id, watched.user, amount_of(watched)});
    }
    return all;
}

/// The workspaces that grew most since the last round, of the user whose workspaces grew most.
base::Victims DiskMeter::fastest(std::uint64_t spared_below) const {
    auto grown = takings(spared_below, [](const Watched& watched) { return watched.grown_bytes; });
    for (const Grown& before : grown_before_) {
        if (!is_spared(before.user, spared_below))
            grown.push_back({"", before.user, before.in_round});
    }
    return base::choose_victims(std::move(grown), least_blame());
}

bool DiskMeter::is_late() const {
    return space_ && static_cast<double>(space_->free_bytes) * 2 <
                         static_cast<double>(space_->total_bytes) * settings_.reserve;
}

// Half the reserve is gone: many slow writers fill a disk like one fast writer.
void DiskMeter::stop_all_that_grew() {
    const std::uint64_t spared = spared_below();
    auto grown = takings(spared, [](const Watched& watched) { return watched.grown_while_short; });
    for (const Grown& before : grown_before_) {
        if (!is_spared(before.user, spared))
            grown.push_back({"", before.user, before.while_short});
    }
    std::vector<std::string> ids;
    std::uint64_t least = k_disk_slack_bytes;
    for (const base::UserTakings& user : base::takings_by_user(std::move(grown))) {
        if (user.total < least)
            break;
        least = std::max(least, user.total / 2);
        std::uint64_t largest = 0;
        for (const base::Taking& one : user.things) {
            if (one.id.empty() || one.amount == 0)
                continue;
            largest = std::max(largest, one.amount);
            if (one.amount >= largest / 2)
                ids.push_back(one.id);
        }
    }
    if (ids.empty())
        blame_the_hidden();
    else
        stop_for_shortage(ids, DiskExcess::reserve);
}

DiskMeter::Entry DiskMeter::next_inspection_of_shortage() {
    const bool is_too_soon = in_vain_at_ && lost_ - lost_in_vain_ < least_blame() / 4 &&
                             time_between(*in_vain_at_, ports_.clock.steady_now()) < k_pause_in_vain;
    if (!ports_.inspect || is_too_soon)
        return watched_.end();
    return std::ranges::find_if(watched_, [&](const auto& entry) {
        return entry.second.enforcer == DiskEnforcer::none &&
               entry.second.inspection_of_shortage != shortage_;
    });
}

// All have been inspected in this round, and none grew.
void DiskMeter::blame_the_hidden() {
    const auto is_seen = [this](const Watched& watched) {
        return watched.inspection_of_shortage == shortage_;
    };
    const auto holders = base::choose_victims(
        takings(spared_below(),
                [&](const Watched& watched) { return is_seen(watched) ? cost(watched.held) : 0; }),
        least_blame());
    if (!holders.ids.empty())
        return stop_for_shortage(holders.ids, DiskExcess::reserve_held);
    const auto writers = base::choose_victims(
        takings(0,
                [&](const Watched& watched) {
                    return is_seen(watched) && !watched.is_clear ? watched.wrote_bytes : 0;
                }),
        least_blame());
    if (!writers.ids.empty())
        return stop_for_shortage(writers.ids, DiskExcess::reserve_written);
    if (std::ranges::none_of(watched_, is_seen, &std::pair<const std::string, Watched>::second))
        return;
    in_vain_at_ = ports_.clock.steady_now();
    lost_in_vain_ = lost_;
    if (std::exchange(told_in_vain_, true))
        return;
    base::LogLine(base::evt::disk_short)
        .quoted("err", "no sandbox grew much or holds deleted files: others may have taken the space")
        .warn();
}

void DiskMeter::stop_for_shortage(const std::vector<std::string>& ids, DiskExcess why) {
    for (auto& [id, watched] : watched_)
        watched.grown_while_short = 0;
    grown_before_.clear();
    in_vain_at_.reset();
    for (const auto& id : ids) {
        // The end of one may have ended another.
        if (watched_.contains(id))
            report(id, why);
    }
}

}  // namespace atl::fs_guard
