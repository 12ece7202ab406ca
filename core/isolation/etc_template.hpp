// The /etc of every sandbox: a folder made at each start of the server and shown read-only. Holds no fact
// of the host but the mount points for what HostLayout shows of it.
#pragma once

#include <filesystem>

#include "core/base/error.hpp"
#include "core/isolation/host_layout.hpp"

namespace atl::isolation {

/// Makes `folder` and its files, or brings them up to date; readable by everyone. Errors: storage_failed.
base::Result<void> write_etc(const std::filesystem::path& folder, const HostLayout& layout);

}  // namespace atl::isolation
