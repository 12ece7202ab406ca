// `atolld --check-config`: looks at all that a configuration names, and changes nothing.
#pragma once

#include "app/command_output.hpp"
#include "app/config.hpp"
#include "core/base/error.hpp"

namespace atl::app {

/// One line that says that it is good. Errors: those of configured_agents(), of the certificate and of
/// ATOLL_API_KEY, as at a start.
base::Result<CommandOutput> check_configuration(const Config& config);

}  // namespace atl::app
