// A copy of a database that others may be writing to.
#pragma once

#include <filesystem>

#include "core/base/error.hpp"

namespace atl::store {

/// Writes a consistent copy of the database to `target`. The file appears whole, checked and synced to the
/// disk, or not at all; an older file of that name is replaced. Mode 0600. It has no mark of an epoch
/// (log_epoch.hpp): logs from a backup never are those that clients have seen. If another process has the
/// database exclusively, as a server does until it shares it, this waits at most k_backup_patience. Blocks
/// for as long as reading and writing all of it takes. Errors: storage_failed.
base::Result<void> back_up(const std::filesystem::path& database, const std::filesystem::path& target);

}  // namespace atl::store
