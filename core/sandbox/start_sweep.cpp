#include "core/sandbox/start_sweep.hpp"

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::sandbox {

std::size_t sweep_at_start(const std::vector<Record>& known, const ResourceGroups& groups, DiskGuard& disk,
                           UidLeases& uids) {
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
    auto emptied = [&uids](const base::Result<void>& removed) {
        if (removed)
            uids.lift_quarantine();
        else
            base::LogLine(base::evt::sandbox_cleanup).quoted("err", removed.error().detail()).error();
    };
    const Sweep swept = disk.sweep(known_ids, std::move(emptied), held_ids);
    uids.quarantine(swept.trash_owners);
    uids.hold(swept.orphan_owners);
    return swept.orphans;
}

}  // namespace atl::sandbox
