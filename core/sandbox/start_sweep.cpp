#include "core/sandbox/start_sweep.hpp"

#include <optional>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::sandbox {

namespace {

using base::Result;

/// Makes the facts of the host match the store and the disk.
Result<void> settle_facts(const std::vector<std::string>& known_ids, const DiskGuard& disk, UidLeases& uids,
                          NodeStore& node, StartSweep& start) {
    auto loaded = node.load();
    if (!loaded)
        return loaded.error();
    std::unordered_map<std::string, std::uint32_t> facts;
    for (HostFacts& each : *loaded)
        facts.emplace(std::move(each.sandbox_id), each.host_uid);
    std::vector<HostFacts> lost;
    for (const std::string& id : known_ids) {
        const std::optional<std::uint32_t> owner = disk.owner(id);
        if (!owner)
            continue;
        const auto found = facts.extract(id);
        const std::uint32_t host_uid = found.empty() ? *owner : found.mapped();
        if (found.empty())
            lost.push_back({id, host_uid});
        uids.adopt(host_uid);
        start.host_uids.emplace(id, host_uid);
    }
    for (const auto& [id, unused] : facts) {
        if (auto erased = node.erase(id); !erased)
            return erased;
    }
    for (const HostFacts& each : lost) {
        if (auto put = node.put(each); !put)
            return put;
    }
    return {};
}

}  // namespace

Result<StartSweep> sweep_at_start(const std::vector<Record>& known, const ResourceGroups& groups,
                                  DiskGuard& disk, UidLeases& uids, NodeStore& node) {
    std::vector<std::string> known_ids;
    for (const Record& record : known) {
        if (!record.gone)
            known_ids.push_back(record.id);
    }
    // Processes of the last run that did not die keep their workspace and uid, whatever the store says.
    std::vector<std::string> held_ids;
    for (const Leftover& leftover : groups.leftovers()) {
        held_ids.push_back(leftover.sandbox_id);
        for (const std::string& id : disk.owned_by(leftover.host_uids))
            held_ids.push_back(id);
        uids.hold(leftover.host_uids);
    }
    for (const std::string& id : held_ids) {
        if (const auto owner = disk.owner(id))
            uids.hold({*owner});
    }
    auto emptied = [&uids](const Result<void>& removed) {
        if (removed)
            uids.lift_quarantine();
        else
            base::LogLine(base::evt::sandbox_cleanup).quoted("err", removed.error().detail()).error();
    };
    const Sweep swept = disk.sweep(known_ids, std::move(emptied), held_ids);
    uids.quarantine(swept.trash_owners);
    uids.hold(swept.orphan_owners);
    StartSweep start;
    start.orphans = swept.orphans;
    if (auto settled = settle_facts(known_ids, disk, uids, node, start); !settled)
        return settled.error();
    return start;
}

}  // namespace atl::sandbox
