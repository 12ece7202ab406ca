// Translates the configuration into the launcher's configuration on this host.
#pragma once

#include <vector>

#include "app/config.hpp"
#include "app/data_dir.hpp"
#include "core/base/error.hpp"
#include "core/isolation/bubblewrap_launcher.hpp"

namespace atl::app {

/// Looks at the host's file system, writes the sandboxes' /etc below the data directory, finds bwrap.
/// Errors: host_unsupported, invalid_field (a hidden path), storage_failed.
base::Result<isolation::LauncherConfig> make_launcher_config(const Config& config, const DataDir& data,
                                                             const std::vector<sandbox::AgentSpec>& agents);

}  // namespace atl::app
