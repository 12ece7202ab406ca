// Where on this host a server may make groups: the cgroup v2 hierarchy, mounted by itself or beside v1
// (cgroups(7)), and the folders in it that may be writable.
// Not here: making anything.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace atl::cgroup {

/// Folders of the v2 hierarchy below which a group may be made, best first: its root, then the server's own
/// group. Empty where no v2 hierarchy is mounted.
using Candidates = std::vector<std::filesystem::path>;

/// Reads /proc/self/mountinfo and /proc/self/cgroup.
Candidates find_candidates();

/// The same from the text of the two files (proc(5)).
Candidates parse_candidates(std::string_view mountinfo, std::string_view own_groups);

}  // namespace atl::cgroup
