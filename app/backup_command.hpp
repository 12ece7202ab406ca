// `atolld backup FILE`: a copy of the database as of one moment, also while a server works in it.
#pragma once

#include "app/command_output.hpp"
#include "app/config.hpp"
#include "core/base/error.hpp"

namespace atl::app {

/// Precondition: config.backup. Errors name the fault and its fix.
base::Result<CommandOutput> run_backup_command(const Config& config);

}  // namespace atl::app
