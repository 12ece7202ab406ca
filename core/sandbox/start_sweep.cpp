#include "core/sandbox/start_sweep.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::sandbox {

namespace {

using base::Result;

class Sweeper {
  public:
    Sweeper(const KnownSandboxes& known, const ResourceGroups& groups, DiskGuard& disk, UidLeases& uids,
            NodeStore& node)
        : known_(known), groups_(groups), disk_(disk), uids_(uids), node_(node) {}

    Result<StartSweep> run();

  private:
    Result<std::vector<std::string>> hold_leftovers();
    Result<Sweep> sweep(std::vector<std::string> held_ids);
    Result<std::optional<Record>> find(const std::string& id) const;
    Result<bool> is_known(const std::string& id) const;
    Result<void> adopt(const std::string& id);
    Result<void> leave_foreign_uids();
    Result<void> suspect(const std::string& id, std::uint32_t host_uid);
    Result<void> suspect_named();
    Result<void> erase_stale_facts();
    Result<bool> is_stale(const HostFacts& facts) const;
    Result<void> put_lost_facts();

    const KnownSandboxes& known_;
    const ResourceGroups& groups_;
    DiskGuard& disk_;
    UidLeases& uids_;
    NodeStore& node_;
    StartSweep start_;
    std::set<std::uint32_t> left_uids_;  // of processes of an earlier run
    std::size_t without_facts_ = 0;      // workspaces of known sandboxes
    std::vector<std::string> foreign_;   // sandboxes whose uid another server leases
};

Result<std::optional<Record>> Sweeper::find(const std::string& id) const {
    auto found = known_.find(id);
    if (found && *found && (*found)->gone)
        found->reset();
    return found;
}

Result<bool> Sweeper::is_known(const std::string& id) const {
    const auto found = find(id);
    if (!found)
        return found.error();
    return found->has_value();
}

Result<StartSweep> Sweeper::run() {
    auto held_ids = hold_leftovers();
    if (!held_ids)
        return held_ids.error();
    const auto swept = sweep(std::move(*held_ids));
    if (!swept)
        return swept.error();
    uids_.quarantine(swept->trash_owners);
    uids_.hold(swept->orphan_owners);
    start_.orphans = swept->orphans;
    // Only now is it known which uids are in use.
    if (auto left = leave_foreign_uids(); !left)
        return left.error();
    if (auto found = suspect_named(); !found)
        return found.error();
    const auto facts = node_.count();
    if (!facts)
        return facts.error();
    // Erased before others are put: a uid may have gone from one sandbox to another.
    if (*facts != swept->kept - without_facts_) {
        if (auto erased = erase_stale_facts(); !erased)
            return erased.error();
    }
    if (without_facts_ > 0) {
        if (auto put = put_lost_facts(); !put)
            return put.error();
    }
    return std::move(start_);
}

// Processes of the last run that did not die keep their workspace and uid, whatever the store says.
Result<std::vector<std::string>> Sweeper::hold_leftovers() {
    std::vector<std::string> held_ids;
    for (const StaleGroup& leftover : groups_.leftovers()) {
        held_ids.push_back(leftover.sandbox_id);
        left_uids_.insert(leftover.host_uids.begin(), leftover.host_uids.end());
        uids_.hold(leftover.host_uids);
    }
    const auto owned = disk_.owned_by({left_uids_.begin(), left_uids_.end()});
    if (!owned)
        return owned.error();
    held_ids.insert(held_ids.end(), owned->begin(), owned->end());
    for (const std::string& id : held_ids) {
        if (const auto owner = disk_.owner(id))
            uids_.hold({*owner});
    }
    return held_ids;
}

Result<Sweep> Sweeper::sweep(std::vector<std::string> held_ids) {
    SweepCalls calls;
    calls.is_known = [this](const std::string& id) { return is_known(id); };
    calls.on_kept = [this](const std::string& id) { return adopt(id); };
    calls.on_emptied = [&uids = uids_](const Result<void>& removed) {
        if (removed)
            uids.lift_quarantine();
        else
            base::LogLine(base::evt::sandbox_cleanup).quoted("err", removed.error().detail()).error();
    };
    calls.known = known_.count;
    calls.held_ids = std::move(held_ids);
    return disk_.sweep(std::move(calls));
}

// Adopts the uid of a sandbox that is known and has a workspace, or notes that another server has it.
Result<void> Sweeper::adopt(const std::string& id) {
    const auto facts = node_.find(id);
    if (!facts)
        return facts.error();
    const std::uint32_t host_uid = *facts ? **facts : disk_.owner(id).value_or(0);
    without_facts_ += *facts ? 0 : 1;
    if (!uids_.adopt(host_uid) && !left_uids_.contains(host_uid)) {
        foreign_.push_back(id);
        return {};
    }
    return left_uids_.contains(host_uid) ? suspect(id, host_uid) : Result<void>();
}

// Two sandboxes with one uid would be no strangers to the kernel. The workspace comes first: a start that is
// cut short finds the foreign uid in the facts, and begins again.
Result<void> Sweeper::leave_foreign_uids() {
    for (const std::string& id : foreign_) {
        const auto facts = node_.find(id);
        if (!facts)
            return facts.error();
        const auto uid = uids_.acquire();
        if (!uid)
            return uid.error();
        if (auto given = disk_.give_to(id, *uid); !given)
            return given;
        if (auto put = node_.put({id, *uid}); !put)
            return put;
        without_facts_ -= *facts ? 0 : 1;
    }
    if (!foreign_.empty())
        base::LogLine(base::evt::uids_renewed)
            .field("sandboxes", static_cast<std::int64_t>(foreign_.size()))
            .field("err", "another server of this host leases the uids that they had")
            .warn();
    return {};
}

Result<void> Sweeper::suspect(const std::string& id, std::uint32_t host_uid) {
    auto found = find(id);
    if (!found)
        return found.error();
    if (*found)
        start_.suspects.push_back({std::move(**found), host_uid});
    return {};
}

Result<void> Sweeper::suspect_named() {
    for (const StaleGroup& leftover : groups_.leftovers()) {
        const auto is_it = [&](const StartSweep::Suspect& each) {
            return each.record.id == leftover.sandbox_id;
        };
        if (leftover.sandbox_id.empty() || std::ranges::any_of(start_.suspects, is_it))
            continue;
        const auto owner = disk_.owner(leftover.sandbox_id);
        const auto facts = node_.find(leftover.sandbox_id);
        if (!facts)
            return facts.error();
        if (auto found = suspect(leftover.sandbox_id, owner ? facts->value_or(*owner) : 0); !found)
            return found;
    }
    return {};
}

Result<void> Sweeper::erase_stale_facts() {
    for (std::string last;;) {
        const auto facts = node_.list(last, k_facts_batch);
        if (!facts)
            return facts.error();
        if (facts->empty())
            return {};
        std::vector<std::string> stale;
        for (const HostFacts& each : *facts) {
            const auto judged = is_stale(each);
            if (!judged)
                return judged.error();
            if (*judged)
                stale.push_back(each.sandbox_id);
        }
        if (auto erased = node_.erase_all(stale); !erased)
            return erased;
        last = facts->back().sandbox_id;
    }
}

Result<bool> Sweeper::is_stale(const HostFacts& facts) const {
    if (!disk_.owner(facts.sandbox_id))
        return true;
    const auto known = is_known(facts.sandbox_id);
    if (!known)
        return known.error();
    return !*known;
}

Result<void> Sweeper::put_lost_facts() {
    std::vector<HostFacts> lost;
    const auto visit = [&](const std::string& id) -> Result<void> {
        const auto facts = node_.find(id);
        const auto known = facts && !*facts ? is_known(id) : Result<bool>(false);
        if (!facts || !known)
            return facts ? known.error() : facts.error();
        const auto owner = *known ? disk_.owner(id) : std::nullopt;
        if (owner)
            lost.push_back({id, *owner});
        if (lost.size() < k_facts_batch)
            return {};
        return node_.put_all(std::exchange(lost, {}));
    };
    if (auto visited = disk_.each_workspace(visit); !visited)
        return visited;
    return node_.put_all(lost);
}

}  // namespace

Result<StartSweep> sweep_at_start(const KnownSandboxes& known, const ResourceGroups& groups, DiskGuard& disk,
                                  UidLeases& uids, NodeStore& node) {
    return Sweeper(known, groups, disk, uids, node).run();
}

}  // namespace atl::sandbox
