// What a start does with what an earlier run left behind: workspaces that no sandbox of the store has, uids
// that must not be handed out yet, and facts of the host that do not match the store. Once, before the first
// sandbox is adopted.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/sandbox/node_store.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::sandbox {

struct StartSweep {
    std::size_t orphans = 0;  // workspaces that no record names
    /// Of the sandboxes of the store that have a workspace; the leases know of them.
    std::unordered_map<std::string, std::uint32_t> host_uids;
};

/// `known`: the sandboxes of the store. Removal goes on in the background; the ports must outlive it.
///
/// The facts of the host and the store may each be older than the other:
/// - a sandbox of the store with a workspace and without facts gets them from the workspace's owner;
/// - facts without a workspace, or without a sandbox in the store, are erased: the owners of what lies in the
///   trash, among the orphans or below processes of an earlier run tell which uids stay reserved.
/// Errors: storage_failed from the node's store.
base::Result<StartSweep> sweep_at_start(const std::vector<Record>& known, const ResourceGroups& groups,
                                        DiskGuard& disk, UidLeases& uids, NodeStore& node);

}  // namespace atl::sandbox
