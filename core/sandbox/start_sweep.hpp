// What a start does with what an earlier run left behind: workspaces that no sandbox of the store has, and
// uids that must not be handed out yet. Once, before the first sandbox is adopted.
#pragma once

#include <vector>

#include "core/sandbox/ports.hpp"

namespace atl::sandbox {

/// `known`: the sandboxes of the store. Removal goes on in the background; the ports must outlive it. Returns
/// how many workspaces there are that no record names.
std::size_t sweep_at_start(const std::vector<Record>& known, const ResourceGroups& groups, DiskGuard& disk,
                           UidLeases& uids);

}  // namespace atl::sandbox
