// Times of those who visit previews, and bounds of the answers that they get. Included by few files.
#pragma once

#include <chrono>
#include <cstddef>

namespace atl::base {

// Bytes that pass keep a sandbox living for so long: short beside any idle time.
inline constexpr std::chrono::milliseconds k_preview_visit_time{2'000};

// How long a tunnel waits for a side that takes nothing, or that has not ended after the other one did.
inline constexpr std::chrono::milliseconds k_relay_stuck_time{60'000};

// An answer of a dev server: its head, and each line of a chunk or all trailers, have at most so many bytes;
// head and trailers together have at most so many fields, which take memory of the server.
inline constexpr std::size_t k_max_answer_head_bytes = 64UL * 1024;
inline constexpr std::size_t k_max_answer_fields = 1'024;

}  // namespace atl::base
