// The settings of the manager of conversations, and the references that its parts share.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/conversation/lifetime.hpp"
#include "core/conversation/roster.hpp"
#include "core/conversation/stats.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {
class Manager;
}

namespace atl::conversation {

class Journal;
class LogShares;
class PreviewPorts;
class Store;

/// The bounds of a conversation's log, in bytes of serialised events.
struct LogBounds {
    std::size_t turn_bytes = base::k_max_turn_log_bytes;
    std::size_t conversation_bytes = base::k_max_conversation_log_bytes;
};

/// The number of sandboxes of an agent that are started ahead.
struct PoolSize {
    std::string agent;
    std::size_t size = 0;
};

struct PoolState {
    std::string agent;
    std::size_t size = 0;
    std::size_t ready = 0;  // to be claimed now
};

struct ManagerSettings {
    std::vector<sandbox::AgentSpec> agents;  // shell and echo among them
    std::string default_agent = "shell";
    std::uint32_t default_idle_seconds = 0;  // where a request names none; 0: never
    std::uint32_t default_ttl_seconds = 0;
    sandbox::PreviewSettings default_preview;
    bool allow_host_network = false;
    ConversationBounds conversation_bounds;
    std::chrono::seconds keep_ended = base::k_default_keep_ended;  // after its time to live is over
    std::size_t max_kept_ended = base::k_max_kept_ended;
    LogBounds log_bounds;
    std::string log_epoch;                 // the epoch of all logs, small letters and digits; empty: none
    std::function<double()> reserve_left;  // for LogShares
    base::Millis turn_limit = base::k_default_turn_limit;
    std::vector<PoolSize> pool;                            // sizes for some of `agents`, each once
    base::Millis warm_limit = base::k_default_warm_limit;  // for a warm pause; 0: all are cold
    base::Millis evict_idle = base::k_default_evict_idle;  // before a sandbox may be ended for another one

    /// The agent of that name, or null where none is configured.
    const sandbox::AgentSpec* find_agent(const std::string& name) const;
    /// Succeeds if a conversation may have this agent. Errors: unknown_agent, naming those that there are;
    /// one that is not installed likewise, with the command.
    base::Result<void> check_agent(const std::string& name) const;
};

/// Gives the address of a port that the preview of a sandbox lists; empty: it is shown nowhere.
using PortUrl = std::function<std::string(const sandbox::Record& sandbox, std::uint16_t port)>;

/// The references that the parts of the manager share. All of it outlives them.
struct Context {
    const base::Clock& clock;
    base::Timers& timers;
    sandbox::Manager& sandboxes;
    Journal& journal;
    Store& store;
    const ManagerSettings& settings;
    Stats& stats;
    Ages ages;
    PreviewPorts* preview_ports;
    LogShares& logs;
    PortUrl port_url{};                                               // empty: no port has an address
    std::function<void(const std::string& sandbox_id)> unattended{};  // as Manager::set_unattended()
};

/// Succeeds if a sandbox may have this network. Errors: those of sandbox::Manager::check_network().
base::Result<void> check_network(const Context& context, const sandbox::NetworkSettings& network);
/// The network that a PATCH sets, with what stays a user's of it (EgressSettings::keep_user_rules()); nothing
/// where it sets none. Errors: those of check_network().
base::Result<std::optional<sandbox::NetworkSettings>> changed_network(
    const Context& context, const sandbox::Record& before, std::optional<sandbox::NetworkSettings> wanted);
/// Changes the record and the sandbox: the network as a whole, if there is one, and the named members of the
/// preview.
void change_sandbox(const Context& context, sandbox::Record& record,
                    const std::optional<sandbox::NetworkSettings>& network,
                    const sandbox::PreviewChanges& preview);

}  // namespace atl::conversation
