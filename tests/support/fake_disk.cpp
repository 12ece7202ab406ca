// The workspaces of a FakeWorld as a start finds them, and its host uids.
#include <algorithm>
#include <utility>

#include "tests/support/fake_world.hpp"

namespace atl::test {

using base::Errc;
using base::Error;
using base::Result;

Result<sandbox::Sweep> FakeWorld::sweep(sandbox::SweepCalls calls) {
    const std::set<std::string> held(calls.held_ids.begin(), calls.held_ids.end());
    sandbox::Sweep swept;
    for (const auto& [id, uid] : workspaces) {
        const auto known = calls.is_known(id);
        if (!known)
            return known.error();
        require(*known || unclaimed.contains(id), "a claimed workspace is in no store");
        if (*known) {
            ++swept.kept;
            unclaimed.erase(id);
            if (auto kept = calls.on_kept(id); !kept)
                return kept.error();
        } else if (!held.contains(id)) {
            trash.emplace(id, uid);
        }
    }
    std::erase_if(workspaces, [&](const auto& entry) { return trash.contains(entry.first); });
    std::erase_if(unclaimed, [&](const auto& id) { return !workspaces.contains(id); });
    for (const auto& [id, uid] : trash)
        swept.trash_owners.push_back(uid);
    later([this, gone = trash, done = std::move(calls.on_emptied)] {
        for (const auto& [id, uid] : gone)
            trash.erase(id);
        done({});
    });
    return swept;
}

Result<void> FakeWorld::each_workspace(const std::function<Result<void>(const std::string&)>& visit) const {
    for (const auto& [id, uid] : workspaces) {
        if (auto visited = visit(id); !visited)
            return visited;
    }
    return {};
}

std::optional<std::uint32_t> FakeWorld::owner(const std::string& sandbox_id) const {
    const auto found = workspaces.find(sandbox_id);
    return found == workspaces.end() ? std::nullopt : std::optional(found->second);
}

Result<void> FakeWorld::give_to(const std::string& sandbox_id, std::uint32_t host_uid) {
    require(uids.contains(host_uid), "a workspace was given to a uid that is not leased");
    workspaces.at(sandbox_id) = host_uid;
    return {};
}

Result<std::vector<std::string>> FakeWorld::owned_by(const std::vector<std::uint32_t>& host_uids) const {
    std::vector<std::string> owned;
    for (const auto& [id, uid] : workspaces) {
        if (std::ranges::find(host_uids, uid) != host_uids.end())
            owned.push_back(id);
    }
    return owned;
}

Result<std::uint32_t> FakeWorld::acquire() {
    if (chance(failure_per_mille))
        return Error(Errc::capacity, "injected");
    std::uint32_t uid = 1;
    while (uids.contains(uid) || withheld.contains(uid) || quarantined.contains(uid) || foreign.contains(uid))
        ++uid;
    for (const auto& [pid, process] : processes)
        require(process->host_uid != uid, "the uid of a living process was given away");
    require(!has_files(uid), "the uid of a workspace was given away");
    require(!node.names(uid), "a uid was given away that the node's store names");
    uids.insert(uid);
    return uid;
}

bool FakeWorld::has_files(std::uint32_t host_uid) const {
    const auto is_its = [&](const auto& entry) { return entry.second == host_uid; };
    return std::ranges::any_of(workspaces, is_its) || std::ranges::any_of(trash, is_its);
}

bool FakeWorld::adopt(std::uint32_t host_uid) {
    if (foreign.contains(host_uid))
        return false;
    require(uids.insert(host_uid).second, "a uid was adopted twice");
    return true;
}

void FakeWorld::release(std::uint32_t host_uid) {
    // A sandbox whose workspace was lost has none.
    if (host_uid == 0)
        return;
    require(uids.erase(host_uid) == 1, "a uid was released that was not leased");
    require(!has_files(host_uid), "a uid was released before its workspace was removed");
    require(!node.names(host_uid), "a uid was released that the node's store names");
    // The uid is not handed out before the next start, released or not.
    if (withheld.contains(host_uid))
        return;
    for (const auto& [pid, process] : processes)
        require(process->host_uid != host_uid, "the uid of a living process was released");
}

void FakeWorld::quarantine(const std::vector<std::uint32_t>& host_uids) {
    quarantined.insert(host_uids.begin(), host_uids.end());
}

void FakeWorld::hold(const std::vector<std::uint32_t>& host_uids) {
    withheld.insert(host_uids.begin(), host_uids.end());
}
}  // namespace atl::test
