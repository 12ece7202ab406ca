// Times of those who visit previews. Included by the proxy alone.
#pragma once

#include <chrono>

namespace atl::base {

// Bytes that pass keep a sandbox living for so long: short beside any idle time.
inline constexpr std::chrono::milliseconds k_preview_visit_time{2'000};

// How long a tunnel waits for a side that takes nothing, or that has not ended after the other one did.
inline constexpr std::chrono::milliseconds k_relay_stuck_time{60'000};

}  // namespace atl::base
