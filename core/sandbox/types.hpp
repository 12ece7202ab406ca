// Value types of a sandbox: its request, its state, its exit. No behaviour, no I/O.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/limits.hpp"
#include "core/base/shares.hpp"
#include "core/plain/preview_limits.hpp"
#include "core/sandbox/field_table.hpp"
#include "core/sandbox/limit_table.hpp"
#include "core/sandbox/tool_settings.hpp"

namespace atl::sandbox {

/// Variables in the order in which they were added; names are unique.
using Environment = std::vector<std::pair<std::string, std::string>>;

enum class NetworkMode : std::uint8_t {
    none,
    host,   // the host's
    egress  // as none, with a proxy of the server's as the one way out
};
/// True if a sandbox with this mode has a net namespace of its own.
constexpr bool has_own_net(NetworkMode mode) noexcept {
    return mode != NetworkMode::host;
}

/// A header that a route sets: `value`, and behind it the value of a secret.
struct RouteHeader {
    std::string name;
    std::string value;
    std::string secret;  // its name; empty: none
    bool operator==(const RouteHeader&) const = default;
};

/// An upstream that programs inside reach with headers that they do not see: at http://127.0.0.1:3129/NAME,
/// or at its own address, through the proxy.
struct EgressRoute {
    std::string name;      // of one at its own address: the rule of `allow` that it belongs to
    std::string upstream;  // as egress::Upstream::text()
    std::vector<RouteHeader> headers;
    std::vector<std::string> methods;  // empty: all
    std::vector<std::string> paths;    // each exact, or ending in '*'; empty: all
    bool git = false;                  // git inside uses it for addresses that begin with `upstream`
    bool operator==(const EgressRoute&) const = default;
};

/// Rules of a user in settings that an operator's key set: rules of `allow`, and '/' with the name of a
/// route.
struct UserRules {
    std::string user_id;  // empty: there are none
    std::vector<std::string> rules;
    bool operator==(const UserRules&) const = default;
};

/// How far a sandbox with network mode `egress` reaches.
struct EgressSettings {
    std::vector<std::string> allow;  // rules in normal form
    std::string user_id;             // of the key that set them; empty: a key without a user did
    std::vector<EgressRoute> routes{};
    bool ask = false;                  // a person decides on a host that `allow` does not list
    std::vector<EgressRoute> hosts{};  // the rules of `allow` that set headers; each is in `allow`, too
    UserRules of_user{};

    /// The user whose secrets and ceilings count for a rule, named as in UserRules; empty: the operator's.
    const std::string& user_of(const std::string& rule) const noexcept;
    /// Where an operator's key set these in place of `before`: the rules that a user has there, and that say
    /// the same here, stay that user's.
    void keep_user_rules(const EgressSettings& before);
    /// Adds a rule to `allow` by the decision of that user; empty: an operator's. A rule among a user's own
    /// is that user's, whoever decides.
    void add_rule(const std::string& rule, const std::string& by_user_id);
    bool operator==(const EgressSettings&) const = default;
};

/// The network that a request names, as a whole.
struct NetworkSettings {
    NetworkMode mode = NetworkMode::none;
    EgressSettings egress;
};

enum class PreviewAccess : std::uint8_t {
    everyone,      // all who know the address
    token_bearers  // holders of a token of scope `preview`
};

/// The ports that the preview of a sandbox shows, and its audience.
struct PreviewSettings {
    PreviewAccess access = PreviewAccess::everyone;
    std::optional<bool> wake;  // as the request named it
    /// At least one, each once. The first is shown where an address names no port.
    std::vector<std::uint16_t> ports{base::k_default_preview_port};
    /// Every other port is listed, too: no request named ports, and the server shows such ports at names that
    /// lead to its own machine alone.
    bool any_port = false;

    bool is_private() const noexcept { return access == PreviewAccess::token_bearers; }
    /// A request wakes a paused conversation if `wake` says so, and by default if the preview is private.
    bool wakes() const noexcept { return wake.value_or(is_private()); }
    bool lists(std::uint16_t port) const noexcept {
        return any_port || std::find(ports.begin(), ports.end(), port) != ports.end();
    }
    bool operator==(const PreviewSettings&) const = default;
};

/// The settings that a request names; an empty one stays as it is.
struct PreviewChanges {
    std::optional<PreviewAccess> access;
    std::optional<bool> wake;
    std::optional<std::vector<std::uint16_t>> ports;

    PreviewSettings applied_to(PreviewSettings settings) const {
        settings.access = access.value_or(settings.access);
        settings.wake = wake ? wake : settings.wake;
        settings.any_port = settings.any_port && !ports;
        settings.ports = ports.value_or(std::move(settings.ports));
        return settings;
    }
};

/// The time that some, and that all processes of a group have waited for a resource, in microseconds.
struct Pressure {
    std::uint64_t some_usec = 0;
    std::uint64_t full_usec = 0;
};

/// The resources that the processes of a group use, as far as this host accounts them.
struct Usage {
    std::optional<std::uint64_t> memory_bytes;
    std::optional<std::uint64_t> memory_peak_bytes;
    std::optional<std::uint64_t> cpu_usec;   // since the group was made, all processors
    std::optional<std::uint32_t> processes;  // threads are counted, too
    std::optional<std::uint32_t> sockets;    // of the sandbox's own net namespace
    std::optional<Pressure> memory_pressure;
    std::optional<Pressure> cpu_pressure;
    std::optional<Pressure> io_pressure;
};

/// Memory of the host, in bytes. `available` is the memory that new processes can have without swapping
/// others out (proc(5), MemAvailable).
struct HostMemory {
    std::uint64_t total_bytes = 0;
    std::uint64_t available_bytes = 0;
};

/// The size of a workspace, as last measured.
struct DiskUsage {
    std::uint64_t bytes = 0;  // allocated, folders and all
    std::uint64_t inodes = 0;
};

/// The answer to an agent that asks for a permission: that of the people who follow the conversation, or
/// always the same.
enum class PermissionPolicy : std::uint8_t { ask, allow, deny };

/// A program that an operator configured as an agent, or one built into the guest.
struct AgentSpec {
    enum class Kind : std::uint8_t { shell, echo, command, none };  // none: a sandbox without a conversation
    std::string name;
    Kind kind = Kind::none;
    std::vector<std::string> argv;             // command only; as seen inside the sandbox
    std::optional<std::filesystem::path> dir;  // host folder shown read-only as /agent
    std::string resume{};                      // command only: its first line, a JSON object; empty: none
    std::vector<EgressRoute> routes{};         // the operator's, where the sandbox's own have no such name
    std::string adapter{};                     // "acp", "stream-json" or "lines"; empty: built into the guest
    PermissionPolicy permissions = PermissionPolicy::ask;
    std::chrono::seconds permission_timeout{300};                 // then it is denied
    std::chrono::seconds start_timeout = base::k_start_deadline;  // until the guest and the agent are ready
    LimitChanges limits{};                                        // of a sandbox whose request names none
    bool needs_network = false;  // a request that names no network gets egress, for routes of its own
    std::string unset{};         // a variable without which it has no route of its own; empty: none
    std::string missing{};       // why it cannot be used on this host; empty: it can
    std::string setup{};         // the command that installs it; empty: none is known
};
/// The longest AgentSpec::resume, with the end of its line.
inline constexpr std::size_t k_max_resume_bytes = 256UL * 1024;

/// The status of one generation.
enum class Status : std::uint8_t { pending, ready, frozen, failed, terminated };
inline constexpr std::array k_all_statuses{Status::pending, Status::ready, Status::frozen, Status::failed,
                                           Status::terminated};

enum class ExitClass : std::uint8_t {
    exited,        // the guest ended by itself
    signalled,     // a signal that the server did not send
    oom,           // its memory limit, too many sockets, or a host without memory
    disk_limit,    // killed for its disk use
    stopped,       // the server ended it for an end of its own: pause, delete, shutdown
    killed,        // the server ended it for the host's limits (evicted), or without an agent that obeys
    setup_failed,  // it never became ready
    lost,          // it did not die within its deadline, or its end could not be observed
};
inline constexpr std::array k_all_exit_classes{
    ExitClass::exited,  ExitClass::signalled, ExitClass::oom,          ExitClass::disk_limit,
    ExitClass::stopped, ExitClass::killed,    ExitClass::setup_failed, ExitClass::lost};

/// True for an end by a limit of the sandbox.
constexpr bool is_limit(ExitClass exit_class) noexcept {
    return exit_class == ExitClass::oom || exit_class == ExitClass::disk_limit;
}
/// True for an end by the server that is no such limit.
constexpr bool is_own_doing(ExitClass exit_class) noexcept {
    return exit_class == ExitClass::stopped || exit_class == ExitClass::killed;
}

/// The end of a generation: a value that clients get unchanged.
struct Exit {
    ExitClass exit_class = ExitClass::lost;
    int code = 0;        // exit status or signal number
    std::string detail;  // a sentence for people; holds no unescaped guest output
    // With `oom` and `disk_limit`, as far as they are known.
    std::optional<std::uint64_t> limit_bytes;
    std::optional<std::uint64_t> peak_bytes;
};

std::string_view to_string(NetworkMode mode) noexcept;
std::string_view to_string(PreviewAccess access) noexcept;
std::string_view to_string(Status status) noexcept;
std::string_view to_string(ExitClass exit_class) noexcept;
std::optional<NetworkMode> parse_network(std::string_view text) noexcept;
std::optional<PreviewAccess> parse_access(std::string_view text) noexcept;

/// The part of a sandbox that outlives the server: its row in the store. Its facts of this host are in the
/// node's store (node_store.hpp).
struct Record : ClientFields {
    std::string id;
    std::string conversation_id;         // empty: a sandbox without a conversation
    std::optional<std::string> user_id;  // the owner, where no conversation has one
    std::uint32_t generation = 0;
    NetworkMode network = NetworkMode::none;
    EgressSettings egress;
    Limits limits;
    PreviewSettings preview;
    ToolSettings tools;    // of a sandbox without a conversation
    Environment env;       // from the create request, already checked
    std::string metadata;  // JSON object as text; of a sandbox without a conversation
    base::WallTime created_at{};
    bool gone = false;  // only the record is left, of an ended conversation
    std::optional<base::ShareHolder>
        holder{};  // whose place a generation takes; not stored; none: nobody's yet
};

/// A start that wants a place.
struct Demand {
    Limits limits{};
    std::optional<base::ShareHolder> holder{};  // as in Record
};

/// The user of what a sandbox takes from the host. A sandbox without an owner is a user of its own.
base::ShareHolder user_of(const Record& record);

}  // namespace atl::sandbox
