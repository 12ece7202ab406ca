// Where on this host a server may make groups: the hierarchies of cgroup v2 and v1 that are mounted
// (cgroups(7)), and the folders in each that may be writable.
// Not here: making anything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

namespace atl::cgroup {

/// A controller limits or accounts the members of a group. On v2 `cpu` accounts, too, and every group can be
/// frozen.
enum class Controller : std::uint8_t { memory, cpu, cpuacct, pids, freezer };

/// The name of a controller as the kernel's files write it.
std::string_view name_of(Controller controller) noexcept;

/// Folders of one hierarchy below which a group may be made, best first.
using Candidates = std::vector<std::filesystem::path>;

struct Layout {
    Candidates unified;                   // of v2; empty where it is not mounted
    std::map<Controller, Candidates> v1;  // of each controller that a v1 hierarchy has
};

/// Reads /proc/self/mountinfo and /proc/self/cgroup, and whether systemd delegated the server's own group
/// (systemd.resource-control(5), Delegate=), which then comes before the root.
Layout find_layout();

/// The same from the text of the two files (proc(5)); the root comes first.
Layout parse_layout(std::string_view mountinfo, std::string_view own_groups);

}  // namespace atl::cgroup
