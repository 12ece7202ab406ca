// The clean-up, at a start, of things that an earlier run left behind: workspaces that no sandbox of the
// store has, uids that must not be handed out yet, and facts of the host that do not match the store. It runs
// once, before the first sandbox is adopted. It goes over the folders of the disk and asks the two stores
// about one sandbox at a time, so its memory does not grow with the number of sandboxes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/sandbox/node_store.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::sandbox {

struct StartSweep {
    /// A sandbox of the store that processes of an earlier run may belong to.
    struct Suspect {
        Record record;
        std::uint32_t host_uid = 0;  // 0 without a workspace
    };

    std::size_t orphans = 0;  // workspaces that no record names
    std::vector<Suspect> suspects;
};

/// Facts that are put or erased in one commit, and read at a time.
inline constexpr std::size_t k_facts_batch = 4096;

/// Afterwards the leases know the uid of each sandbox of the store that has a workspace, and the node's store
/// has its facts. Removal goes on in the background; the ports must outlive it.
///
/// The facts of the host and the store may each be older than the other:
/// - a sandbox of the store with a workspace and without facts gets them from the workspace's owner;
/// - facts without a workspace, or without a sandbox in the store, are erased: the owners of what lies in the
///   trash, among the orphans or below processes of an earlier run tell which uids stay reserved.
/// Errors: storage_failed from either store. No workspace is taken for an orphan because a store failed.
base::Result<StartSweep> sweep_at_start(const KnownSandboxes& known, const ResourceGroups& groups,
                                        DiskGuard& disk, UidLeases& uids, NodeStore& node);

}  // namespace atl::sandbox
