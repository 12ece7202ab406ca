// The server's own folders below the data directory. Internal to fs-guard.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::fs_guard {

inline constexpr const char* k_workspaces = "workspaces";
inline constexpr const char* k_trash = "trash";
inline constexpr const char* k_orphaned = "orphaned";
/// An empty file for each workspace that the store may not have yet.
inline constexpr const char* k_unclaimed = "unclaimed";

/// "WHAT: No space left on device (ENOSPC)".
base::Error failed(const std::string& what, int error_number);
/// Opens it, made with mode 0700 if it is not there. Errors: storage_failed.
base::Result<base::UniqueFd> open_folder(const std::filesystem::path& path);
/// A folder that is there and no link; else empty, with errno.
base::UniqueFd open_existing(int parent, const std::string& name);
/// The names in a folder with a few entries, in no order; none if the folder cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);
/// Calls `visit` with the name of each of `data_dir`'s workspaces, without the entries that a file system
/// puts into its root, until it returns an error; returns that. `visit` may move the named one away. In no
/// order. Errors: storage_failed if the folder cannot be read.
base::Result<void> each_workspace_name(
    const std::filesystem::path& data_dir,
    const std::function<base::Result<void>(const std::string& name)>& visit);

}  // namespace atl::fs_guard
