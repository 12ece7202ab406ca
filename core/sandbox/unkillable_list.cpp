#include "core/sandbox/unkillable_list.hpp"

#include <algorithm>
#include <utility>

#include "core/base/ending_limits.hpp"

namespace atl::sandbox {

UnkillableList::UnkillableList(const base::Clock& clock, base::Timers& timers, Gone gone)
    : clock_(clock), timers_(timers), gone_(std::move(gone)) {}

UnkillableList::~UnkillableList() {
    stop();
}

UnkillableList::Entry* UnkillableList::lookup(Number number) {
    const auto found = kept_.find(number);
    return found == kept_.end() ? nullptr : &found->second;
}

void UnkillableList::add(Remains remains) {
    const Number number = ++last_;
    Entry& entry = kept_[number];
    entry.remains = std::move(remains);
    entry.since = clock_.wall_now();
    entry.pause = base::k_undying_first_pause;
    entry.group_gone = !entry.remains.group;
    if (!entry.remains.process)
        entry.remains.has_exited = true;
    rest(number);
}

bool UnkillableList::process_exited(const std::string& sandbox_id, std::uint32_t generation) {
    const auto found = std::ranges::find_if(kept_, [&](const auto& item) {
        const Remains& remains = item.second.remains;
        return remains.process && remains.sandbox_id == sandbox_id && remains.generation == generation;
    });
    if (found == kept_.end())
        return false;
    found->second.remains.has_exited = true;
    // The rest of the group is likely to be gone as well.
    timers_.cancel(found->second.timer);
    found->second.timer = timers_.arm(base::Millis{0}, [this, number = found->first] { try_again(number); });
    return true;
}

bool UnkillableList::holds(const std::string& sandbox_id, std::uint32_t host_uid) const {
    return std::ranges::any_of(kept_, [&](const auto& item) {
        const Remains& remains = item.second.remains;
        return remains.sandbox_id == sandbox_id ||
               (host_uid != 0 && std::ranges::find(remains.host_uids, host_uid) != remains.host_uids.end());
    });
}

std::uint32_t UnkillableList::identify(const Record& record, std::uint32_t host_uid) {
    std::uint32_t memory_mb = 0;
    for (auto& [number, entry] : kept_) {
        Remains& remains = entry.remains;
        const bool has_uid =
            host_uid != 0 && std::ranges::find(remains.host_uids, host_uid) != remains.host_uids.end();
        if (remains.sandbox_id.empty() && has_uid) {
            remains.sandbox_id = record.id;
            remains.generation = record.generation;
        }
        if (remains.sandbox_id != record.id)
            continue;
        memory_mb += record.limits.memory_mb - remains.memory_mb;
        remains.memory_mb = record.limits.memory_mb;
    }
    return memory_mb;
}

void UnkillableList::stop() {
    for (const auto& [number, entry] : kept_)
        timers_.cancel(entry.timer);
    kept_.clear();
}

std::vector<Unkillable> UnkillableList::list(std::size_t most) const {
    std::vector<Unkillable> told;
    for (const auto& [number, entry] : kept_) {
        if (told.size() == most)
            break;
        const Remains& remains = entry.remains;
        Unkillable one{remains.sandbox_id, remains.generation, entry.since, std::nullopt};
        if (remains.group && !entry.group_gone)
            one.processes = remains.group->usage().processes;
        told.push_back(std::move(one));
    }
    return told;
}

void UnkillableList::try_again(Number number) {
    Entry* entry = lookup(number);
    if (entry == nullptr)
        return;
    entry->timer = 0;
    if (!entry->remains.has_exited)
        entry->remains.process->kill();
    if (entry->group_gone)
        return settle(number);
    entry->remains.group->kill();
    if (std::exchange(entry->removing, true))
        return;
    entry->remains.group->remove(
        [this, number](const base::Result<void>& result) { removed(number, result); });
}

// Inside a callback of the group, which therefore stays until later.
void UnkillableList::removed(Number number, const base::Result<void>& result) {
    Entry* entry = lookup(number);
    if (entry == nullptr)
        return;
    entry->removing = false;
    entry->group_gone = result.has_value();
    settle(number);
}

void UnkillableList::settle(Number number) {
    Entry& entry = kept_.at(number);
    if (!entry.group_gone || !entry.remains.has_exited)
        return rest(number);
    timers_.cancel(entry.timer);
    entry.timer = timers_.arm(base::Millis{0}, [this, number] {
        const auto node = kept_.extract(number);
        Remains& remains = node.mapped().remains;
        remains.place = {};  // a start that waits for it may take it in this call
        gone_(remains.sandbox_id, remains.generation, remains.memory_mb);
    });
}

void UnkillableList::rest(Number number) {
    Entry& entry = kept_.at(number);
    timers_.cancel(entry.timer);
    entry.timer = timers_.arm(entry.pause, [this, number] { try_again(number); });
    entry.pause = std::min<base::Millis>(2 * entry.pause, base::k_undying_longest_pause);
}

}  // namespace atl::sandbox
