// `atolld orphans list|adopt|remove`: workspaces that no record of the database names (fs-guard/orphans.hpp).
// Listing needs nothing; the others take the data directory's lock, so no server may run in it: a server
// reads orphans and database once, when it starts. A command that is cut short leaves the workspace among the
// orphans, or a conversation that finds it at the next start.
#pragma once

#include "app/command_output.hpp"
#include "app/config.hpp"
#include "core/base/error.hpp"

namespace atl::app {

/// Precondition: config.orphans. Errors name the fault and its fix.
base::Result<CommandOutput> run_orphans_command(const Config& config);

}  // namespace atl::app
