// The server on this host: the launcher's configuration, the process's own priority.
#pragma once

#include <string>
#include <vector>

#include "app/config.hpp"
#include "app/data_dir.hpp"
#include "core/base/error.hpp"
#include "core/isolation/bubblewrap_launcher.hpp"

namespace atl::app {

/// The host's paths that sandboxes see. Errors: host_unsupported, invalid_field (a path to hide or to show).
base::Result<isolation::HostLayout> layout_of_host(const Config& config);

/// Looks at the host's file system, writes the sandboxes' /etc below the data directory, finds bwrap.
/// Errors: host_unsupported, invalid_field (a hidden path), storage_failed.
base::Result<isolation::LauncherConfig> make_launcher_config(const Config& config, const DataDir& data,
                                                             const std::vector<sandbox::AgentSpec>& agents);

/// Gives this process the priority of --nice if that is negative (core/base/own_priority.hpp). A refused
/// priority is logged.
void take_priority(int nice);

/// PATH inside: what there is of the server's own, in sandboxes with this layout.
std::string path_of_sandboxes(const isolation::HostLayout& layout);

}  // namespace atl::app
