// What ripgrep may open, as the kernel enforces it (landlock(7)): the workspace and the programs of the
// system. ripgrep walks by name, so a link that is swapped in for a directory while it walks would lead it
// out of the workspace. Where the kernel has no Landlock, it may.
#pragma once

// check-allow: layers header-only, so the guest still links nothing of the host's
#include "core/base/unique_fd.hpp"

namespace atl::guest {

/// A ruleset for SpawnRequest::domain_fd: reading beneath `workspace` (open, also with O_PATH), running
/// programs of the system, nothing else. None where there is no Landlock.
base::UniqueFd read_rules(int workspace);

}  // namespace atl::guest
