// Gives a whole workspace to another host uid: for a start that finds its sandboxes' uids in the hands of
// another server (a copied data directory). Names and inodes alone: no file is opened, no link followed.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.hpp"

namespace atl::fs_guard {

/// All of the folder `name` in `parent`, the folder itself last, so that an interrupted change can be told
/// from a whole one. Goes on where an earlier one was interrupted. Waits for the disk. Precondition: no
/// process changes the tree. Errors: storage_failed.
base::Result<void> give_tree(int parent, const std::string& name, std::uint32_t host_uid);

}  // namespace atl::fs_guard
