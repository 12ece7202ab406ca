// A copy of a database that others may be writing to.
#pragma once

#include <filesystem>

#include "core/base/error.hpp"

namespace atl::store {

/// Writes the database as of one moment to `target`, which appears whole, checked and on the disk, or not at
/// all; what had that name is replaced. Mode 0600. Waits for a database that another process has to itself,
/// as a server's is until it shares it, at most k_backup_patience. Blocks for as long as reading and writing
/// all of it takes. Errors: storage_failed.
base::Result<void> back_up(const std::filesystem::path& database, const std::filesystem::path& target);

}  // namespace atl::store
