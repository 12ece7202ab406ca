// What app configures of the HTTP server. Every duration and bound has a default from core/base/limits.hpp;
// tests inject short ones.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/base/limits.hpp"
#include "http/client_address.hpp"
#include "http/limit_settings.hpp"

namespace atl::http {

/// Which requests the access log tells at level info; the others are told at level debug.
enum class AccessLog : std::uint8_t { failures, all };

struct Settings {
    using Millis = std::chrono::milliseconds;

    Millis header_deadline = base::k_header_deadline;  // first byte of a request to the end of its head
    Millis body_deadline = base::k_body_deadline;      // end of the head to the end of the body
    Millis idle_deadline = base::k_idle_deadline;      // kept-alive connection without a request
    Millis write_deadline = base::k_write_deadline;    // for each 64 KiB that the peer has to take
    Millis heartbeat_interval = base::k_heartbeat_interval;
    Millis linger_deadline{2'000};  // reading on after a refusal, so that the peer sees the answer
    Millis stream_head_delay{
        20};  // a stream's head waits this long for its first event: one write instead of two
    std::size_t max_header_bytes = base::k_max_header_bytes;
    std::size_t max_body_bytes = base::k_max_body_bytes;
    std::size_t body_budget_bytes =
        base::k_body_budget_bytes;  // of all that are not complete (body_budget.hpp)
    std::size_t max_connections = base::k_max_connections;
    LimitSettings limits;                      // of one client
    TrustedProxies trusted_proxies;            // whose X-Forwarded fields count
    std::vector<std::string> allowed_hosts;    // names in Host beyond those of the loopback; without port
    std::vector<std::string> allowed_origins;  // "https://app.example": pages of other sites that may ask
    std::optional<gid_t> unix_socket_group;    // may connect to Unix sockets, besides the server's own user
    AccessLog access_log = AccessLog::failures;
};

}  // namespace atl::http
