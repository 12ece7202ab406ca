// `atolld keys add|list|revoke`: the command line's side of http/access/key_file.hpp. It needs no server and
// does not disturb a running server.
#pragma once

#include "app/command_output.hpp"
#include "app/config.hpp"
#include "core/base/error.hpp"

namespace atl::app {

/// Precondition: config.keys. Errors name the fault and its fix.
base::Result<CommandOutput> run_keys_command(const Config& config);

}  // namespace atl::app
