// This server's own folder in each hierarchy that it uses: PLACE/atoll-INSTANCE. The instance id in the name
// identifies the owner, so a start after a crash ends and removes only the groups below its own folder. Made
// at start, removed at the end if it is empty.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cgroup/hierarchy.hpp"
#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::cgroup {

/// A folder in one hierarchy, below which groups are made.
struct Place {
    std::filesystem::path path;
    std::shared_ptr<base::UniqueFd> folder;
    int version = 2;                   // of cgroups
    std::set<Controller> controllers;  // that limit the groups below it
};

struct Places {
    std::vector<Place> all;                     // the first is where members are counted and killed
    std::map<Controller, std::string> missing;  // why a controller is in none of them
    std::set<std::string> leftovers;            // groups of an earlier run that did not end
};

/// Makes the folders, and ends and removes the groups that an earlier run left in them. A hierarchy in which
/// the server may not make a folder is listed in `missing`. A server that is itself in its v2 place moves to
/// a sibling group, since a group with members cannot limit groups below it (cgroups(7), "no internal
/// processes"). Blocks, up to base::k_kill_deadline for leftovers that do not end; for the start only.
Places open_places(const std::string& instance_id, const Layout& layout);

/// Removes the folders that are empty.
void close_places(const Places& places);

}  // namespace atl::cgroup
