// The mount namespace from which a private launch starts (mount_namespaces(7)): made once, entered by each
// child, which puts its own workspace into its copy of it.
// It holds only the few mounts that a sandbox needs. bwrap reads the whole mount table for each bind, so with
// all of the host's mounts the cost of a launch would grow with their number.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/isolation/host_views.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::isolation {

struct Staging {
    base::UniqueFd mount_namespace;
    /// A folder in it, in no source's way: holds `guest`, `agent-program`, `etc` and `masks`, which every uid
    /// can read there, and the empty folders `workspace`, `bridge`, `agent` and `ptys` to mount on.
    std::string dir;
    /// The host's files that are shown through overlays; it has no mounts if there are no overlays.
    HostViews views;
};

struct StagingSources {
    std::filesystem::path guest;
    std::filesystem::path etc;
    /// Absolute paths that a launch opens or binds: they stay, with all mounts below them.
    std::vector<std::filesystem::path> reachable;
    /// Paths of the host that are shown to sandboxes: folders, parts of /etc, agents' folders.
    std::vector<std::filesystem::path> folders = {};
    std::vector<std::filesystem::path> etc_parts = {};
    std::vector<std::filesystem::path> agents = {};
    std::filesystem::path agent_program = {};  // empty: none
};

/// Precondition: CAP_SYS_ADMIN, and the process has one thread. The process is in its own mount namespace
/// again when this returns, unless the kernel refuses the way back. Errors: host_unsupported.
base::Result<Staging> make_staging(const StagingSources& sources);

}  // namespace atl::isolation
