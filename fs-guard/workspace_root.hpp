// Where the workspaces are: below the data directory, or on a file system of their own that is mounted at its
// folder `disk` (scripts/workspace-image). Workspaces, trash and orphans are on one file system, since
// entries are renamed between them.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "core/base/error.hpp"

namespace atl::fs_guard {

/// `data_dir`, or its folder `disk` where there is one. Errors: storage_failed if nothing is mounted there:
/// otherwise the server would take every workspace for lost.
base::Result<std::filesystem::path> workspace_root(const std::filesystem::path& data_dir);

/// Says if there are workspaces of the uid `own`, and of other uids.
struct WorkspaceOwners {
    bool own = false;
    bool others = false;
};
/// The owners of the workspaces in `root`. Workspaces that a crash left half-made do not count: the next
/// start removes them. Errors: storage_failed.
base::Result<WorkspaceOwners> workspace_owners(const std::filesystem::path& root, uid_t own);

}  // namespace atl::fs_guard
