// Where the workspaces are: below the data directory, or on a file system of their own that is mounted at its
// folder `disk` (scripts/workspace-image). What is renamed into one another lies together: workspaces, trash,
// orphans.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <set>

#include "core/base/error.hpp"

namespace atl::fs_guard {

/// `data_dir`, or its folder `disk` where there is one. Errors: storage_failed if nothing is mounted there: a
/// server that went on would take every workspace for lost.
base::Result<std::filesystem::path> workspace_root(const std::filesystem::path& data_dir);

/// Who owns workspaces in `root`. Those that a crash left half-made do not count: the next start removes
/// them.
std::set<uid_t> workspace_owners(const std::filesystem::path& root);

}  // namespace atl::fs_guard
