// Bounds of previews. Only files that need them include this one.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace atl::base {

// Ports that a sandbox reports at once: the smallest that are listened on.
inline constexpr std::size_t k_max_told_ports = 32;
// The guest looks for them: soon after a command, then less and less often, down to this. A look costs some
// 10 us; only where it shows a change, and now and then, the tables of the kernel are read (1 ms for a hash
// table of 262,144 entries). Both together take at most this part of a processor, and a little at once.
inline constexpr std::chrono::milliseconds k_first_port_look{100};
inline constexpr std::chrono::milliseconds k_last_port_look{5'000};
inline constexpr std::chrono::milliseconds k_port_table_interval{15'000};
inline constexpr int k_port_watch_share = 1'000;  // one part of so many
inline constexpr std::chrono::milliseconds k_port_watch_burst{20};
inline constexpr std::size_t k_max_port_table_bytes = 64UL * 1024;
static_assert(k_first_port_look < k_last_port_look && k_last_port_look < k_port_table_interval);
// Events about ports in the log of a conversation: so many at once, then one each interval. What changes
// meanwhile is told as far as it still counts then.
inline constexpr std::size_t k_port_event_burst = 64;
inline constexpr std::chrono::milliseconds k_port_event_interval{10'000};
static_assert(2 * k_max_told_ports <= k_port_event_burst);

// Sockets in a sandbox that a server which is not root keeps ahead, of each family; and how long its helper
// may take to make them.
inline constexpr std::size_t k_kept_inner_sockets = 16;
inline constexpr std::chrono::milliseconds k_inner_socket_deadline{5'000};

// Connections to dev servers that wait for their next request: of a port, and of all.
inline constexpr std::size_t k_max_kept_upstreams = 64;
inline constexpr std::size_t k_max_kept_upstreams_of_all = 512;
static_assert(k_max_kept_upstreams < k_max_kept_upstreams_of_all);
// Node closes an idle connection after 5 s; this is less.
inline constexpr std::chrono::milliseconds k_kept_upstream_time{4'000};

// Bytes of a body that the relay between a client and a dev server takes at once from one side.
inline constexpr std::size_t k_relay_piece_bytes = 64UL * 1024;
// Bytes after which other connections have a turn.
inline constexpr std::size_t k_relay_turn_bytes = 4 * k_relay_piece_bytes;
// Answers of status 1xx before the one that counts.
inline constexpr std::size_t k_max_interim_answers = 16;
// The time from the end of a request to the end of the answer's head: a dev server's first compile.
inline constexpr std::chrono::milliseconds k_relay_answer_time{300'000};

// Connections of the server to one sandbox, for its previews: what one page can take from the others. An
// operator may allow one sandbox half of those of all.
inline constexpr std::size_t k_upstreams_of_sandbox = 512;
inline constexpr std::size_t k_max_upstreams = 8'192;
inline constexpr std::size_t k_max_upstreams_of_sandbox = k_max_upstreams / 2;
static_assert(k_max_kept_upstreams < k_upstreams_of_sandbox &&
              k_upstreams_of_sandbox <= k_max_upstreams_of_sandbox);
// The connections to a user's sandboxes while there are as many, whatever the share is
// (core/base/shares.hpp).
inline constexpr std::size_t k_upstreams_user_floor = k_upstreams_of_sandbox;
// Sockets of a sandbox that visitors may have: one part of so many, where a connection that the guest makes
// takes more than the one that the dev server accepts. With all others they leave a part of so many.
inline constexpr std::size_t k_visitors_sockets = 2;
inline constexpr std::size_t k_sockets_of_dial = 3;
inline constexpr std::uint32_t k_visitors_leave_sockets = 8;
// A connection that the server closed stays until the guest's kernel acknowledges the end, which it may delay
// by 200 ms (TCP_DELACK_MAX).
inline constexpr std::chrono::milliseconds k_closed_socket_stays{300};

// Once this part of the connections that a sandbox may have to visitors serves one, a visitor for whom the
// server waits has a least pace: so many bytes in so much of that wait.
inline constexpr std::size_t k_crowded_upstreams = 2;
inline constexpr std::size_t k_least_pace_bytes = 10UL * 1024;
inline constexpr std::chrono::milliseconds k_least_pace_time{10'000};
// An address has as many of them as it leaves to the others, and in any case so many as a browser opens.
inline constexpr std::size_t k_upstreams_of_address = 16;

// Wakes of paused conversations by their previews: of all in a minute, of one at most once in this time.
inline constexpr std::uint32_t k_preview_wakes_per_minute = 60;
inline constexpr std::uint32_t k_most_preview_wakes_per_minute = 6'000;
// Wakes that a user may have while there are as many, whatever the share is (core/base/shares.hpp).
inline constexpr std::uint32_t k_preview_wakes_user_floor = 4;
inline constexpr std::chrono::milliseconds k_preview_wake_pause{10'000};
// Conversations in that pause at a time. Most were not woken: there is no room, or they cannot start.
inline constexpr std::size_t k_max_wake_pauses = 8'192;
static_assert(k_most_preview_wakes_per_minute < k_max_wake_pauses);
// The conversations of a user while there are as many, whatever the share is (core/base/shares.hpp).
inline constexpr std::size_t k_wake_pauses_user_floor = 64;
// How long a request waits for the sandbox that it woke: what a browser shows, and everything else.
inline constexpr std::chrono::milliseconds k_wake_wait_of_page{700};
inline constexpr std::chrono::milliseconds k_wake_wait{10'000};
inline constexpr std::size_t k_max_wake_waiters = 256;  // of a conversation

// The port of a preview that names none, and how many ports one may list.
inline constexpr std::uint16_t k_default_preview_port = 5173;
inline constexpr std::size_t k_max_preview_ports = 32;

// Ports of this machine at which previews without a domain are shown. A search for a free one tries so many
// that other programs have.
inline constexpr std::uint16_t k_first_preview_number = 30'000;
inline constexpr std::uint16_t k_preview_numbers = 10'000;
inline constexpr std::size_t k_preview_number_tries = 256;
// Ports that a user may have while there are as many, whatever the share is (core/base/shares.hpp).
inline constexpr std::uint16_t k_preview_numbers_user_floor = 100;
static_assert(k_first_preview_number + k_preview_numbers <= 65'536);
// A sandbox keeps its number while another program has it no longer than this: the kernel gives those from
// 32,768 on to connections, too (ip(7), ip_local_port_range). How often that is looked at.
inline constexpr std::chrono::milliseconds k_preview_number_patience{2'000};
inline constexpr std::chrono::milliseconds k_preview_number_retry{100};
static_assert(k_preview_number_retry < k_preview_number_patience);
// Ports among these that are listened on at a time; two descriptors each.
inline constexpr std::size_t k_max_preview_doors = 2'000;
inline constexpr std::size_t k_descriptors_per_preview_door = 2;
// The time for which the port of a paused sandbox is still listened on.
inline constexpr std::chrono::seconds k_default_preview_linger{3'600};

/// TCP ports of a sandbox's loopback that are kept for the server itself: its proxy and its routes with
/// credentials. No visitor is shown one.
inline constexpr std::array<std::uint16_t, 2> k_reserved_ports{3128, 3129};
constexpr bool is_reserved_port(std::uint16_t port) noexcept {
    return std::find(k_reserved_ports.begin(), k_reserved_ports.end(), port) != k_reserved_ports.end();
}

}  // namespace atl::base
