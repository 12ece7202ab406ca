// Bounds on late ends and late answers: sandboxes whose processes do not die, removals, helper processes. A
// file of its own because everything includes limits.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/base/limits.hpp"

namespace atl::base {

// Processes that did not die within k_kill_deadline are killed again after the shorter pause, then after
// twice as long, up to the longer.
inline constexpr std::chrono::seconds k_undying_first_pause{1};
inline constexpr std::chrono::seconds k_undying_longest_pause{30};
static_assert(k_undying_first_pause <= k_undying_longest_pause);
inline constexpr std::size_t k_max_undying_told = 100;  // in /v1/system

// A removal is answered when no path leads to the files any more. Processes that do not die delay that, for
// this time at most.
inline constexpr std::chrono::seconds k_removal_answer_deadline{5};

// A tree is removed for this long, then it is another's turn: of another user if one waits.
inline constexpr std::chrono::milliseconds k_removal_slice{200};

// The budget of deleted files that are not removed yet (core/base/shares.hpp). A tree that was never measured
// counts as much as a sandbox may hold by default.
inline constexpr std::uint64_t k_removals_budget_bytes = 64UL * 1024 * 1024 * 1024;
inline constexpr std::uint64_t k_removals_user_floor_bytes = 8UL * 1024 * 1024 * 1024;
inline constexpr std::uint64_t k_unmeasured_tree_bytes = 1024UL * 1024 * 1024;

// Requests to a helper process (fs-guard). The time of a walk or a removal depends on its tree: so the helper
// reports its progress and is ended only if the progress stops. Other requests must be answered in time, with
// twice the time for each further attempt.
inline constexpr std::chrono::seconds k_helper_answer_deadline{30};
inline constexpr std::chrono::seconds k_helper_progress_deadline{60};
inline constexpr std::chrono::seconds k_helper_progress_interval{1};
static_assert(10 * k_helper_progress_interval <= k_helper_progress_deadline);
inline constexpr int k_max_helper_attempts = 3;

}  // namespace atl::base
