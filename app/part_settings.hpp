// Translates the configuration into the settings of the parts. It makes no other decision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/config.hpp"
#include "core/base/error.hpp"
#include "core/conversation/manager.hpp"
#include "core/execution/executions.hpp"
#include "core/sandbox/manager.hpp"
#include "fs-guard/disk_meter.hpp"
#include "http/api/api.hpp"
#include "http/server/settings.hpp"

namespace atl::http {
struct PreviewSettings;
}  // namespace atl::http

namespace atl::app {

/// The agents of --agents-file, else of DATA/agents.json, else of the file that scripts/setup --agents has
/// written, or else the ready-made ones. Errors:
/// unknown_agent if --default-agent or --pool names another agent; the errors of read_agents().
base::Result<std::vector<sandbox::AgentSpec>> configured_agents(const Config& config);

/// A base::fix_line() where the agent of --default-agent is not installed, and a command installs it.
std::string default_agent_fix(const Config& config, const std::vector<sandbox::AgentSpec>& agents);

/// LANG of sandboxes, of the server's own: C.UTF-8 where that is not set, is C or POSIX, as service managers
/// and scripts set it, or names no locale of this host. Programs would count bytes for characters.
std::string lang_of_sandboxes(const char* lang);
/// `sandbox_path` is PATH inside, in place of the server's own. A key that a route of one of the `agents`
/// sets outside of the sandboxes is not inside of any.
sandbox::ManagerSettings sandbox_settings(const Config& config, const std::string& sandbox_path,
                                          const std::vector<sandbox::AgentSpec>& agents);
fs_guard::MeterSettings meter_settings(const Config& config);
/// The total of logs is --log-mb, or a tenth of the disk that holds the data directory; that of files, until
/// the meter looks, the size of the disk of the workspaces: a part of it is the floor of a user.
base::BudgetTotals budget_totals(const Config& config, const std::filesystem::path& data_dir);
/// How much is free of the reserve, which is this share of the disk; 1 and above: all of it, 0: what the cut
/// of a log needs, or less.
double reserve_left(const std::optional<fs_guard::FreeSpace>& space, double reserve);
/// The members of SystemInfo that the configuration alone determines.
http::SystemInfo system_info(const Config& config);
/// Where the engines of code mode are; absolute, and perhaps missing.
execution::EngineFolders engine_folders(const Config& config);
/// Reads them again; null where the configuration rules all of them out. `config` outlives it.
execution::Executions::Look engine_look(const Config& config);
/// Errors: invalid_field, if --executor-pool names what is no engine.
base::Result<void> check_executor_pools(const Config& config, const execution::Engines& engines);
/// Why no engine can run a program with this configuration; empty: one can.
std::string why_no_executions(const Config& config);
/// The engines that are there; the log tells why none is, or why they cannot run. Errors: those of
/// Engines::read().
base::Result<execution::Engines> read_engines(const Config& config);
execution::ExecutionSettings execution_settings(const Config& config);
/// A warning if an address of --listen has a port of the previews without a domain: a service worker that a
/// preview left in the browser reads what the console there is given. Else empty.
std::string listen_warning(const Config& config);
/// The addresses of previews, as sources of a Content-Security-Policy.
std::string preview_frames(const Config& config);
http::Settings http_settings(const Config& config, std::size_t max_connections);
http::GateSettings gate_settings(const Config& config);
http::PreviewSettings preview_settings(const Config& config);
/// The address of a sandbox's preview, whose first port this is: as `--preview-url` says; else of `localhost`
/// and names below it at the first of the `addresses` that has a port, and of other domains HTTPS at its own
/// port. Precondition: there are previews.
std::string public_url(const Config& config, const std::string& sandbox_id, std::uint16_t first_port,
                       const std::vector<std::string>& addresses);
/// The same for a host name of a preview.
std::string url_of_host(const Config& config, const std::string& host,
                        const std::vector<std::string>& addresses);

conversation::ManagerSettings conversation_settings(const Config& config,
                                                    std::vector<sandbox::AgentSpec> agents);

}  // namespace atl::app
