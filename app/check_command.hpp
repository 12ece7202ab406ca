// `atolld --check-config`: looks at all that a configuration names, and changes nothing.
#pragma once

#include "app/command_output.hpp"
#include "app/config.hpp"
#include "core/base/error.hpp"

namespace atl::app {

/// One line that says that it is good. Errors, as at a start: those of configured_agents(), of the form of
/// addresses, of programs that are named, of paths that are hidden or shown, of --executor-pool, of the
/// certificate and of ATOLL_API_KEY. Not of the host: whether an address is free, what the kernel offers.
base::Result<CommandOutput> check_configuration(const Config& config);

/// Checks that the addresses of the flags have the form of addresses; nothing is looked up. Errors:
/// listen_failed.
base::Result<void> check_addresses(const Config& config);

}  // namespace atl::app
