// Bounds of code mode: programs that a model wrote. Units are in the names. A value that an operator may
// change is a default here and has a flag in app/config.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/base/limits.hpp"

namespace atl::base {

// The limits that a request may ask for.
inline constexpr std::chrono::milliseconds k_default_execution_time{30'000};
inline constexpr std::chrono::milliseconds k_max_execution_time{60'000};
static_assert(k_default_execution_time <= k_max_execution_time);
// The memory is that of all processes of a run, its engine included; node needs some 60 MB before a program.
inline constexpr std::uint32_t k_least_execution_memory_mb = 64;
inline constexpr std::uint32_t k_default_execution_memory_mb = 128;
inline constexpr std::uint32_t k_default_max_execution_memory_mb = 512;
static_assert(k_least_execution_memory_mb <= k_default_execution_memory_mb);
static_assert(k_default_execution_memory_mb <= k_default_max_execution_memory_mb);
inline constexpr std::uint32_t k_least_execution_cpu_percent = 10;
inline constexpr std::uint32_t k_default_execution_cpu_percent = 100;
inline constexpr std::uint32_t k_max_execution_cpu_percent = 400;
inline constexpr std::size_t k_default_execution_output_bytes = 1024UL * 1024;  // of all its logs
inline constexpr std::size_t k_max_execution_output_bytes = 4UL * 1024 * 1024;
static_assert(k_default_execution_output_bytes <= k_max_execution_output_bytes);
inline constexpr std::uint64_t k_default_execution_calls = 100;
inline constexpr std::uint64_t k_max_execution_calls = 10'000;
inline constexpr std::size_t k_max_program_bytes = 512UL * 1024;
static_assert(k_max_program_bytes < k_max_body_bytes);
// The arguments of a call, its answer, and the result, as JSON.
inline constexpr std::size_t k_max_execution_value_bytes = 1024UL * 1024;
// The message of the error that a run ended with. A longer one is cut, and says so.
inline constexpr std::size_t k_max_execution_error_bytes = 64UL * 1024;

// The sandbox of a run beside memory and processor: node has some 15 threads.
inline constexpr std::uint32_t k_execution_processes = 64;
inline constexpr std::uint32_t k_execution_sockets = 64;
inline constexpr std::uint32_t k_execution_open_files = 256;
inline constexpr std::uint32_t k_execution_file_mb = 64;  // of each file in its tmpfs

// From the start of its engine until that is ready.
inline constexpr std::chrono::seconds k_engine_ready_deadline{30};
// An engine that ended before it was ready is not tried again for so long, but by its pool, which waits less.
inline constexpr std::chrono::minutes k_engine_rest{2};
// While an engine is missing, the host is looked at for it once in so much time at most.
inline constexpr std::chrono::seconds k_engine_look_pause{5};
inline constexpr std::size_t k_max_runner_pool = 64;  // of one engine, started ahead
// A run that ended can be read for so long. The budget of what is kept of runs (core/base/shares.hpp): a
// result counts as so many bytes at least, and a detached run has its first bytes before it waits in the
// line.
inline constexpr std::chrono::minutes k_execution_kept{10};
inline constexpr std::size_t k_max_kept_execution_bytes = 64UL * 1024 * 1024;
inline constexpr std::size_t k_execution_user_floor_bytes = 1024UL * 1024;
inline constexpr std::size_t k_least_kept_execution_bytes = 32UL * 1024;
inline constexpr std::size_t k_execution_reserved_bytes = 128UL * 1024;
static_assert(k_least_kept_execution_bytes <= k_execution_reserved_bytes);
static_assert(k_execution_reserved_bytes < k_execution_user_floor_bytes);
// The events of one run: logs as JSON, calls with their arguments. A call beyond it is refused; logs end
// before it with an entry that says so.
inline constexpr std::size_t k_max_execution_event_bytes = 8UL * 1024 * 1024;
static_assert(k_max_execution_output_bytes < k_max_execution_event_bytes);

// The work that the loop itself does for code mode; larger work goes to the process of bridge/checker. The
// steps are those of checks of arguments that a run has in one turn of the loop, at most 0.3 us each
// (ArgumentSchema); frames of runners and answers to calls take up to 0.6 ms each.
inline constexpr std::size_t k_call_check_steps = 4'000;
inline constexpr std::size_t k_small_runner_frame_bytes = 16UL * 1024;
inline constexpr std::size_t k_small_answer_bytes = 16UL * 1024;
// The checker's process: the time from sending work to its answer, and the processor time of that; how much
// work of clients may wait for it: pieces of one user, bytes of all, with a share for each user.
inline constexpr std::chrono::seconds k_checker_deadline{10};
inline constexpr std::chrono::seconds k_checker_processor_time{1};
static_assert(k_checker_processor_time < k_checker_deadline);
inline constexpr std::size_t k_checker_waiting_per_user = 64;
inline constexpr std::size_t k_checker_waiting_bytes = 64UL * 1024 * 1024;
inline constexpr std::size_t k_checker_user_floor_bytes = 2UL * 1024 * 1024;
static_assert(k_max_execution_value_bytes < k_checker_user_floor_bytes);

}  // namespace atl::base
