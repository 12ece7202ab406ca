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

// Connections of one sandbox to its proxy; and those of all sandboxes together: one part of so many of the
// server's, so that clients of the API always find some.
inline constexpr std::size_t k_egress_connections_of_sandbox = 64;
inline constexpr std::size_t k_egress_connections_share = 4;
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

// Events that tell of requests: the same one comes at once, then its sum once in so long; and how many
// different ones a sandbox has in that time.
inline constexpr std::chrono::milliseconds k_egress_notice_interval{60'000};
inline constexpr std::size_t k_max_egress_notices = 32;

}  // namespace atl::base
