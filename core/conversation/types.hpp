// Value types of a conversation: the requests of a client, the answers to it, and an event of its log.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/limits.hpp"
#include "core/conversation/field_table.hpp"
#include "core/sandbox/operations.hpp"
#include "core/sandbox/types.hpp"

namespace atl::conversation {

enum class Status : std::uint8_t { starting, active, paused, ended, error };
inline constexpr std::array k_all_statuses{Status::starting, Status::active, Status::paused, Status::ended,
                                           Status::error};
/// Why a conversation is paused, or has ended (ttl).
enum class PauseReason : std::uint8_t { none, user, idle, oom, disk, crash, evicted, server_restart, ttl };

/// Cold: the sandbox has ended, its workspace is kept. Warm: it is frozen and goes on where it was.
enum class PauseMode : std::uint8_t { cold, warm };

std::string_view to_string(Status status) noexcept;
std::string_view to_string(PauseMode mode) noexcept;
std::string_view to_string(PauseReason reason) noexcept;  // empty for none
std::optional<Status> parse_status(std::string_view text) noexcept;

/// The event types of the API, in one list: the store keeps the number, so entries are only ever added.
enum class EventType : std::uint8_t {
    session_start = 1,
    text_delta = 2,
    thinking_delta = 3,
    tool_use = 4,
    tool_result = 5,
    message = 6,
    turn_complete = 7,
    error = 8,
    done = 9,
    sandbox_ready = 10,
    sandbox_paused = 11,
    sandbox_resumed = 12,
    sandbox_terminated = 13,
    output_truncated = 14,
    resource_warning = 15,
    port_opened = 16,
    port_closed = 17,
    turn_start = 18,
    files_changed = 19,
    tool_progress = 20,
    preview_changed = 21,
    egress_denied = 22,
    egress_closed = 23,
    egress_request = 24,
    egress_resolved = 25,
    permission_request = 26,
    permission_resolved = 27,
    plan = 28,
};
inline constexpr auto k_last_event_type = EventType::plan;

std::string_view to_string(EventType type) noexcept;
/// The type of an event that an agent may write; nothing for any other name.
std::optional<EventType> agent_event_type(std::string_view name) noexcept;

/// An event, serialised once and shared by the store and all subscribers.
struct Event {
    std::uint64_t seq = 0;
    EventType type = EventType::error;
    std::uint64_t turn = 0;  // 0: no turn
    std::string json;        // the object of the API, one line

    /// The bytes that reading it counts against a bound.
    std::size_t cost_bytes() const noexcept { return std::max(json.size(), base::k_least_event_cost_bytes); }
};
using EventPtr = std::shared_ptr<const Event>;

/// A place in a conversation's log: behind the event `seq`.
struct Cursor {
    std::uint64_t seq = 0;
    std::string epoch;  // the log's epoch; empty: the present one
};

/// The name of a turn in the API and for agents, as "t12".
std::string turn_name(std::uint64_t turn);

/// Makes the event's text. `data` is the text of a JSON object.
EventPtr make_event(std::uint64_t seq, EventType type, base::WallTime at, std::uint64_t turn,
                    std::string_view data);

/// The time of an event, from its text; none for another text.
std::optional<base::WallTime> event_time(std::string_view json) noexcept;

/// The content of a turn_start, as JSON text; points into the event.
std::string_view start_content(const Event& turn_start) noexcept;

using sandbox::k_tool_settings;
using sandbox::ToolChanges;
using sandbox::ToolSettingEntry;
using sandbox::ToolSettings;

/// A process that is started again in each generation.
struct RestartedProcess {
    std::uint32_t number = 0;   // in its conversation
    sandbox::ProcessSpec spec;  // its id is that of the last start
};

/// The bytes that metadata, the text of an object, takes in the database, with its index.
inline std::uint64_t record_bytes(const std::string& metadata) noexcept {
    return 2 * (std::max<std::size_t>(metadata.size(), 2) - 2);
}

/// The members of a create request. The HTTP layer has checked their form only.
struct CreateRequest : FieldChanges {
    std::string idempotency_key;  // empty: none; senders that are strangers to each other have different ones
    std::string fingerprint;      // with a key: all that the request asks for, as text
    std::string agent;            // empty: the server's default
    std::optional<std::string> user_id;
    std::string made_by;          // the request's key; empty: the server's own
    std::string metadata = "{}";  // the text of a JSON object
    sandbox::Environment env;
    sandbox::Limits limits;
    sandbox::NetworkSettings network;
    sandbox::PreviewSettings preview;
    ToolSettings tools;
    std::optional<std::uint32_t> ttl_seconds;
};

/// The changes of a PATCH; an empty optional leaves the field alone, 0 seconds switches a timer off.
struct PatchRequest : FieldChanges {
    std::optional<std::string> metadata;  // a merge patch (RFC 7396), the text of a JSON object
    std::optional<sandbox::LimitChanges> limits;
    std::optional<sandbox::NetworkSettings> network;  // the new settings as a whole
    sandbox::PreviewChanges preview;
    ToolChanges tools;
    std::optional<std::uint32_t> ttl_seconds;
};

/// A conversation as it is kept from start to start of the server.
struct Record : ClientFields {
    std::int64_t key = 0;  // the store's own number, never told
    std::string id;
    std::string agent;
    std::optional<std::string> user_id;
    std::string made_by;  // the same as in CreateRequest
    std::string metadata = "{}";
    std::string sandbox_id;
    Status status = Status::starting;
    PauseReason reason = PauseReason::none;
    ToolSettings tools;
    std::uint32_t ttl_seconds = 0;  // 0: none
    base::WallTime created_at{};
    base::WallTime last_active_at{};
    std::uint64_t first_seq = 1;
    std::uint64_t last_seq = 0;
    std::uint64_t last_turn = 0;
    std::uint64_t log_bytes = 0;  // the bytes of its events, when it was stored last
    std::string create_key;       // the create request's; not loaded again
    std::string create_digest;    // that of its fingerprint; not loaded again

    /// The holder of its sandbox's place: the user, or the key that made it.
    base::ShareHolder holder() const {
        return user_id ? base::ShareHolder::user(*user_id) : base::ShareHolder::key(made_by);
    }
};

/// The record of a turn: for idempotency, for the log's bound, for the end after a crash.
struct TurnRecord {
    std::int64_t conversation_key = 0;
    std::uint64_t turn = 0;
    std::string idempotency_key;  // empty: none
    std::string content_digest;   // the message's, to tell a retry from a reuse of the key
    std::uint64_t first_seq = 0;  // the first event of the turn is > first_seq - 1
    std::uint64_t last_seq = 0;   // 0: open
    std::uint64_t bytes = 0;      // the bytes of its events in the log
};

/// A message to a conversation's agent.
struct Message {
    std::string content;
    std::string idempotency_key;  // empty: none
    std::string by;               // the sender as the log names it; empty: not known
};

/// The files that a tool has changed.
struct FileChange {
    std::vector<std::string> paths;  // absolute, inside the sandbox
    std::string tool_call_id;        // the caller's name for the call; empty: none
};

/// The progress of a call of a tool.
struct ToolProgress {
    std::string tool_call_id;  // the caller's name for the call; empty: none
    std::string tool;
    std::string status;   // running, completed, failed
    std::string message;  // for people; may be empty
};

/// A request to a host that no rule of its sandbox lists waits for a person's decision.
struct EgressQuestion {
    std::string id;
    std::string host;
    std::uint16_t port = 0;
};

/// The end of a request on the way out of a sandbox, or the sum of several with the same host, port, and
/// reason or route.
struct EgressNotice {
    std::string host;
    std::uint16_t port = 0;
    std::string_view reason{};  // static text: the reason of a refusal; empty: let through
    std::string route{};        // the rule that they came by; empty: they named their host themselves
    std::uint64_t bytes_up = 0;
    std::uint64_t bytes_down = 0;
    base::Millis lasted{0};
    std::uint64_t requests = 1;
    std::uint64_t omitted = 0;  // requests before these that no notice tells of
};

/// A turn that is not over.
struct OpenTurn {
    std::uint64_t turn = 0;
    base::WallTime started_at{};
    std::uint64_t first_seq = 0;  // that of its turn_start
    EventPtr start;               // its turn_start; null for a long one, which the log has
};

/// Each port that is listened on in a sandbox, with the address at which it is shown; empty: it is not.
using PortUrls = std::map<std::uint16_t, std::string>;

/// A conversation as the API shows it.
struct View {
    Record record;
    std::string log_epoch;
    std::optional<OpenTurn> open_turn;
    std::uint32_t generation = 0;
    sandbox::Status sandbox_status = sandbox::Status::pending;
    base::WallTime sandbox_created_at{};
    sandbox::NetworkSettings network;
    sandbox::Limits limits;
    sandbox::PreviewSettings preview;
    PortUrls open_ports;
    sandbox::Enforcement enforcement;
};

/// A turn that was started, or the one that the same Idempotency-Key started before.
struct TurnTicket {
    std::uint64_t turn = 0;
    std::uint64_t after = 0;  // the turn's events come after this seq
    bool replayed = false;    // true: nothing was started
};

}  // namespace atl::conversation
