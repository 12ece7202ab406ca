// The views of the host's files in a private launch: read-only overlays (the kernel's filesystems/overlayfs),
// made anew for each launch. Their files have the bytes of the host's files and share the page cache with
// them, but have inodes of their own: a lock (flock(2)) or a watch (inotify(7)) of a sandbox reaches neither
// another sandbox nor the host. An overlay does not show mounts below its source: each such mount gets a view
// of its own. Not here: when views are mounted (child_setup.hpp), where they are shown (profile.hpp).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/isolation/child_plan.hpp"

namespace atl::isolation {

struct HostViews {
    /// For each launch, in this order. Empty where the kernel has no overlays for them.
    std::vector<StagedMount> mounts;
    /// The host's file /x is shown at `root`/x; `guest`, `etc`, `masks` and `dev` are where their names say.
    std::string root;
    std::string guest;
    std::string etc;
    std::string masks;
    std::string dev;
    std::string empty;  // the second layer of further views
    /// Sources that stay the host's own, and why.
    std::map<std::string, std::string> refused;
};

struct HostViewSources {
    std::filesystem::path guest;
    std::filesystem::path etc;  // the generated one
    /// Folders of the host that sandboxes see: program folders such as /usr, the visible folders of /etc,
    /// agents' folders.
    std::vector<std::filesystem::path> folders;
    std::vector<std::filesystem::path> etc_parts;
    std::vector<std::filesystem::path> agents;
    /// The mount points of this mount namespace.
    std::vector<std::filesystem::path> mount_points;
};

/// Makes the places to mount on in `dir`, an empty folder on a tmpfs that launches see, and tries each view
/// there. A source that the kernel refuses is bound instead, or left to its launch, and named in `refused`.
/// Errors: host_unsupported where `dir` cannot be written.
base::Result<HostViews> make_host_views(const std::filesystem::path& dir, const HostViewSources& sources);

/// The view of `source` at `target`; `below` is an empty folder, since an overlay has two layers at least.
StagedMount view_of(const std::filesystem::path& source, const std::filesystem::path& target,
                    const std::filesystem::path& below);

}  // namespace atl::isolation
