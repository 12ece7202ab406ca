// The configuration by an operator: flags, ATOLL_* variables and a config file, in that order of precedence.
// All values are checked here, so that the rest of the server gets only valid values.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/execution_limits.hpp"
#include "core/base/limits.hpp"
#include "core/conversation/manager.hpp"
#include "core/egress/ceilings.hpp"
#include "core/execution/runner_pool.hpp"
#include "core/plain/preview_limits.hpp"
#include "http/access/client_address.hpp"
#include "http/access/limit_settings.hpp"
#include "http/proxy/preview_names.hpp"

namespace atl::app {

/// `atolld keys …`: a change of the keys of a data directory, instead of serving from it.
struct KeysCommand {
    enum class Action : std::uint8_t { add, list, revoke };
    Action action = Action::list;
    std::string label;                   // add
    std::optional<std::string> user_id;  // add
    std::string id;                      // revoke
    sandbox::LimitChanges ceilings;      // add
};

/// `atolld orphans …`: lists, adopts or removes workspaces without a record.
struct OrphansCommand {
    enum class Action : std::uint8_t { list, adopt, remove };
    Action action = Action::list;
    std::string name;                    // adopt, remove: ID, or DATE/ID
    std::optional<std::string> user_id;  // adopt
    std::string agent = "shell";         // adopt
};

/// `atolld backup FILE`.
struct BackupCommand {
    std::filesystem::path file;
};

struct Config {
    std::vector<std::string> listen{"127.0.0.1:4100"};
    std::filesystem::path tls_cert;  // empty: no TLS; both or none
    std::filesystem::path tls_key;
    std::optional<gid_t> unix_socket_group;
    std::filesystem::path data_dir;
    std::filesystem::path agents_file;  // empty: as configured_agents() finds one
    std::string default_agent = "shell";
    bool allow_host_network = false;
    egress::Ceilings egress;           // off without a flag
    std::filesystem::path egress_log;  // empty: none
    std::vector<std::filesystem::path>
        egress_ca;  // certificates that upstreams may have, beside the system's
    std::vector<std::string> hidden_paths;
    std::vector<std::string> shown_etc;
    std::size_t max_sandboxes = base::k_default_max_sandboxes;
    unsigned user_share_percent = base::k_default_user_share_percent;
    conversation::ConversationBounds conversations;
    std::uint32_t keep_ended_seconds = base::k_default_keep_ended.count();
    std::vector<conversation::PoolSize> pool;
    std::uint64_t max_memory_mb = 0;         // 0: no bound
    sandbox::Limits default_limits;          // these and the next three: where a request names none
    std::uint32_t default_idle_seconds = 0;  // 0: never
    std::uint32_t default_ttl_seconds = 0;   // 0: never
    std::vector<std::uint16_t> default_preview_ports{base::k_default_preview_port};
    double memory_reserve_percent = 5;
    std::uint32_t evict_idle_seconds = base::k_default_evict_idle.count();
    std::uint32_t turn_limit_seconds = base::k_default_turn_limit.count();
    std::uint32_t warm_limit_seconds = base::k_default_warm_limit.count();
    std::size_t turn_log_bytes = base::k_max_turn_log_bytes;
    std::size_t conversation_log_bytes = base::k_max_conversation_log_bytes;
    std::uint64_t log_mb = 0;           // 0: a tenth of the disk
    std::vector<std::string> required;  // of limit_names()
    std::uint32_t disk_period_seconds = 30;
    double disk_reserve_percent = 5;
    std::vector<std::string> allowed_hosts;
    std::vector<std::string> allowed_origins;
    std::string preview_domain;  // empty: previews are ports of this machine
    std::string preview_listen;  // empty: previews that have names answer on the listeners of the API
    std::string preview_url;     // of a preview, with {host}; empty: as the domain and the listeners say
    std::string preview_pattern = "preview-{id},preview-{id}-{port}";
    std::uint32_t preview_wakes_per_minute = base::k_preview_wakes_per_minute;
    std::size_t preview_connections = base::k_upstreams_of_sandbox;
    std::optional<http::PreviewNames> previews;  // made of both
    /// The names of ports that a preview without a name does not show; none where others than this machine
    /// may reach the server.
    std::optional<http::PreviewNames> port_names;
    const std::optional<http::PreviewNames>& names_of_ports() const {
        return previews ? previews : port_names;
    }
    std::uint32_t preview_linger_seconds = base::k_default_preview_linger.count();
    std::size_t max_preview_doors = base::k_max_preview_doors;  // as many as descriptors allow
    http::TrustedProxies trusted_proxies;
    http::LimitSettings limits;
    sandbox::LimitChanges ceilings = sandbox::default_ceilings();  // of the limits that a request may ask for
    std::size_t body_memory_mb = base::k_body_budget_bytes / (1024UL * 1024);
    std::string log_level = "info";
    std::string access_log = "failures";
    std::uint32_t heartbeat_seconds = base::k_heartbeat_interval.count();
    std::uint32_t execute_max_memory_mb = base::k_default_max_execution_memory_mb;
    std::optional<std::vector<execution::RunnerPoolSize>> executor_pools;  // none: one of `auto`
    std::filesystem::path executors;  // empty: where scripts/setup --executors puts them
    std::filesystem::path runners;    // beside this program
    std::filesystem::path bwrap;      // empty: found on PATH
    std::filesystem::path guest;      // the programs beside this one
    std::filesystem::path helper;
    std::filesystem::path zygote;
    std::filesystem::path checker;
    std::filesystem::path uid_lease_dir;
    bool shared_uid = false;
    int nice = -10;
    bool measure_loop = false;
    std::vector<std::string> unread_variables;  // a warning for each
    std::string fixes;                          // base::fix_line() of what the start lacked and did without
    bool print_profile = false;
    bool check_config = false;
    bool adopt_orphans = false;
    std::optional<KeysCommand> keys;
    std::optional<OrphansCommand> orphans;
    std::optional<BackupCommand> backup;
};

/// The result of parsing: a configuration to run with, or an exit code and a text to print.
struct ParsedConfig {
    std::optional<Config> config;
    int exit_code = 0;
    std::string text;
};

/// Reads flags, the environment and the config file. Precondition: argv as main() got it.
ParsedConfig parse_config(int argc, const char* const* argv);

}  // namespace atl::app
