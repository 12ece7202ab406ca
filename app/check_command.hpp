// `atolld --check-config`: looks at all that a configuration names, and changes nothing.
#pragma once

#include "app/command_output.hpp"
#include "app/config.hpp"
#include "core/base/error.hpp"

namespace atl::app {

/// Checks what a start needs of the flags, and makes nothing. Blocks while names are looked up. Errors: those
/// of configured_agents() and of http::check_listen_spec(), of programs that are named, of --executor-pool,
/// of certificates of upstreams, of the place of --egress-log, of paths that are hidden or shown.
base::Result<void> check_start(const Config& config);

/// A line that says that the configuration is good; warnings are in `note`. Errors: those of check_start(),
/// of the certificate and of ATOLL_API_KEY. Not checked: if an address is free, what the kernel offers.
base::Result<CommandOutput> check_configuration(const Config& config);

}  // namespace atl::app
