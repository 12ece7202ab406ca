// A mount namespace of the server's own (mount_namespaces(7)), for mounts that no other process needs and
// that must end with the server.
#pragma once

#include <filesystem>

#include "core/base/error.hpp"

namespace atl::isolation {

/// Moves the calling process to a mount namespace of its own, where the host's later mounts still arrive, and
/// mounts an empty tmpfs on `run_dir`, which is made if it is missing: the folder and the socket of a sandbox
/// take a tenth of the time there that a journalling file system needs. Earlier content of `run_dir` is
/// removed. Call this once, before any thread and any descriptor inside of `run_dir`.
/// Precondition: CAP_SYS_ADMIN. Errors: storage_failed, with nothing mounted.
base::Result<void> keep_in_memory(const std::filesystem::path& run_dir);

}  // namespace atl::isolation
