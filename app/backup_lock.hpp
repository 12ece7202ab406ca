// How `atolld backup` tells a running server that it wants to read the database: it holds a lock on a file of
// the data directory, which ends with the process in any case (fcntl(2), open file description locks).
#pragma once

#include <filesystem>

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::app {

/// Held as long as the descriptor is open. Errors: storage_failed, also while another backup is made.
base::Result<base::UniqueFd> take_backup_lock(const std::filesystem::path& file);

/// Does not wait and does not take the lock.
bool is_backup_running(const std::filesystem::path& file);

}  // namespace atl::app
