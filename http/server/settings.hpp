// The settings of the HTTP server, which app makes. Every duration and bound has a default from
// core/base/limits.hpp; tests inject short ones.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/limits.hpp"
#include "http/access/client_address.hpp"
#include "http/access/limit_settings.hpp"
#include "http/wire/wire_settings.hpp"

namespace atl::http {

/// Which requests the access log tells at level info; the others are told at level debug.
enum class AccessLog : std::uint8_t { failures, all };

struct Settings : WireSettings {
    Millis heartbeat_interval = base::k_heartbeat_interval;
    Millis stream_head_delay{
        20};  // a stream's head waits this long for its first event: one write instead of two
    // The budget of all incomplete bodies (body_budget.hpp); null: a budget of this size without shares.
    base::Budget* bodies = nullptr;
    std::size_t body_budget_bytes = base::k_body_budget_bytes;
    std::size_t max_connections = base::k_max_connections;
    std::optional<gid_t> unix_socket_group;  // may connect to Unix sockets, besides the server's own user
    AccessLog access_log = AccessLog::failures;
};

/// The settings of the API's service (gate.hpp).
struct GateSettings {
    LimitSettings limits;                      // of one client
    TrustedProxies trusted_proxies;            // whose X-Forwarded fields count
    std::vector<std::string> allowed_hosts;    // beyond those of the loopback; each a comparable_host()
    std::vector<std::string> allowed_origins;  // "https://app.example": pages of other sites that may ask
    std::size_t max_body_bytes = base::k_max_body_bytes;  // of a body that does not stream
};

}  // namespace atl::http
