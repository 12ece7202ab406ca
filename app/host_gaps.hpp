// The limits that this host does not enforce, in words for the operator: `notEnforced` of /v1/system.
#pragma once

#include <map>
#include <string>

#include "app/required_limits.hpp"
#include "cgroup/groups.hpp"
#include "core/sandbox/types.hpp"

namespace atl::app {

/// `shared_files`: files of the host that sandboxes have in common, and why (BubblewrapLauncher).
Gaps host_gaps(const sandbox::Enforcement& enforcement, const cgroup::Places& places,
               const std::map<std::string, std::string>& shared_files);

}  // namespace atl::app
