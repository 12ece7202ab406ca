// Bounds of the way out of sandboxes with network mode `egress`. Only files that need them include this one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/plain/preview_limits.hpp"

namespace atl::base {

// The port of a sandbox's loopback at which its proxy listens.
inline constexpr std::uint16_t k_egress_port = k_reserved_ports[0];
// Connections that wait there to be accepted.
inline constexpr int k_egress_backlog = 64;
// The time in which its listener has to be there, from the start of its processes on.
inline constexpr std::chrono::milliseconds k_egress_listen_deadline{10'000};

// Rules of one sandbox, and the bytes of one: a name of 253, a port and a word behind it, with room for a
// name of a group.
inline constexpr std::size_t k_max_egress_rules = 128;
inline constexpr std::size_t k_max_egress_rule_bytes = 272;
// The port of a sandbox's loopback at which its routes are served; the routes of one sandbox, and what one of
// them has; the bytes of all texts of its routes together.
inline constexpr std::uint16_t k_route_port = k_reserved_ports[1];
inline constexpr std::size_t k_max_routes = 32;
inline constexpr std::size_t k_max_route_headers = 16;
inline constexpr std::size_t k_max_route_methods = 16;
inline constexpr std::size_t k_max_route_paths = 64;
inline constexpr std::size_t k_max_routes_bytes = 16UL * 1024;
// A handshake with an upstream that the server verifies itself.
inline constexpr std::chrono::milliseconds k_egress_handshake_time{10'000};

// Connections of one sandbox to its proxy; and those of all sandboxes together: one part of so many of the
// server's, so that clients of the API always find some. Each takes two of its descriptors, since its
// upstream has one, too. A user may have so many whatever the share is.
inline constexpr std::size_t k_egress_connections_of_sandbox = 64;
inline constexpr std::size_t k_egress_connections_share = 8;
inline constexpr std::size_t k_egress_connections_user_floor = 64;
// Connections a second that are accepted from a sandbox and from all sandboxes of a user, and as many that
// are made to upstreams for them, with the look-up and the handshake before each; so many at once, after a
// rest.
inline constexpr std::chrono::milliseconds k_egress_interval{50};
inline constexpr std::uint32_t k_egress_burst_of_sandbox = 64;
inline constexpr std::uint32_t k_egress_burst_of_user = 256;
static_assert(k_egress_connections_of_sandbox <= k_egress_burst_of_sandbox);
// Sandboxes and users whose rates are remembered.
inline constexpr std::size_t k_max_egress_rates = 16UL * 1024;
// How long a request waits for its turn.
inline constexpr std::chrono::milliseconds k_egress_turn_time{10'000};
static_assert(k_egress_connections_of_sandbox * k_egress_interval < k_egress_turn_time);
// Names that are looked up at a time.
inline constexpr std::size_t k_max_egress_look_ups = 512;
inline constexpr std::size_t k_egress_look_ups_user_floor = 16;
// How long a name is looked up.
inline constexpr std::chrono::milliseconds k_egress_look_up_time{10'000};
// Addresses of a name that are tried, and the time for each and for all of them.
inline constexpr std::size_t k_max_egress_addresses = 64;
inline constexpr std::chrono::milliseconds k_egress_connect_time{5'000};
inline constexpr std::chrono::milliseconds k_egress_dial_time{15'000};
static_assert(k_egress_connect_time < k_egress_dial_time);
// The first bytes of a tunnel, which say what it is for: a ClientHello over several records, or the line of a
// request; and the time in which they have to be there.
inline constexpr std::size_t k_max_egress_opening_bytes = 16UL * 1024;
inline constexpr std::chrono::milliseconds k_egress_opening_time{10'000};
// How long a tunnel, or an answer that has begun, may go without a byte.
inline constexpr std::chrono::milliseconds k_egress_idle_time{600'000};

// Events that tell of requests: the same one comes at once, then its sum once in so long; and how many
// different ones a sandbox has in that time.
inline constexpr std::chrono::milliseconds k_egress_notice_interval{60'000};
inline constexpr std::size_t k_max_egress_notices = 32;

// Questions of a sandbox about hosts that are not listed: how long one waits for a person, how many are open
// at a time, and how many are asked in an interval.
inline constexpr std::chrono::milliseconds k_egress_question_time{60'000};
inline constexpr std::size_t k_max_open_egress_questions = 4;
// Requests that wait for one of them: a client that leaves is not noticed until then, and keeps its
// connection.
inline constexpr std::size_t k_max_egress_question_waiters = 8;
static_assert(k_max_open_egress_questions * k_max_egress_question_waiters <=
              k_egress_connections_of_sandbox / 2);
inline constexpr std::chrono::milliseconds k_egress_question_interval{60'000};
inline constexpr std::size_t k_max_egress_questions = 10;

}  // namespace atl::base
