// The /etc of every sandbox, and the files that mask parts of /proc. /etc is a folder made at each start of
// the server and shown read-only. It holds no fact of the host except the mount points for the host files
// that HostLayout shows, and the copies that it names (shown_etc.hpp).
#pragma once

#include <filesystem>

#include "core/base/error.hpp"
#include "core/isolation/host_layout.hpp"

namespace atl::isolation {

/// Makes `folder` and its files, or brings them up to date; readable by everyone. Errors: storage_failed.
base::Result<void> write_etc(const std::filesystem::path& folder, const HostLayout& layout);

/// Makes `folder` with k_empty_file and k_empty_folder (profile.hpp), readable by everyone. Errors:
/// storage_failed.
base::Result<void> make_masks(const std::filesystem::path& folder);

}  // namespace atl::isolation
