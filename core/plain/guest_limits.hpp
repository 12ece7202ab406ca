// Bounds that server and guest both keep. The server's own are in core/base/limits.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atl::base {

// A body of a client's request; a message is no longer.
inline constexpr std::size_t k_max_body_bytes = 1024 * 1024;
inline constexpr std::size_t k_max_env_bytes = 32 * 1024;

// Lines between guest and server.
inline constexpr std::size_t k_max_event_line_bytes = 1024 * 1024;
inline constexpr std::size_t k_max_event_depth = 64;
inline constexpr std::size_t k_max_reply_line_bytes = 64 * 1024;
static_assert(k_max_reply_line_bytes <= k_max_event_line_bytes);
// A complaint quotes this much of a line, and of a name in it.
inline constexpr std::size_t k_quoted_line_bytes = 120;
inline constexpr std::size_t k_quoted_name_bytes = 64;

// Payload of a frame with data of a program (bridge/frame.hpp).
inline constexpr std::size_t k_max_frame_bytes = 64UL * 1024;
// The server may send this much of stdin at first. What the guest has passed on, it grants again.
inline constexpr std::size_t k_input_window_bytes = 64UL * 1024;
static_assert(k_input_window_bytes <= k_max_frame_bytes);

// `shell` keeps its directory and its exported variables from a turn to the next.
inline constexpr std::size_t k_max_shell_state_bytes = 64 * 1024;
static_assert(k_max_env_bytes < k_max_shell_state_bytes);

// This variable tells a guest the process limit (RLIMIT_NPROC) for everything that it starts. The guest
// removes it from the environment.
inline constexpr const char* k_max_processes_variable = "ASH_MAX_PROCESSES";
// A sandbox that met its limit of processes is crowded while at most one place in this many is free.
inline constexpr std::uint32_t k_crowded_share = 8;
// The same, while a process was refused within k_refusal_memory.
inline constexpr std::uint32_t k_refusing_share = 2;

}  // namespace atl::base
