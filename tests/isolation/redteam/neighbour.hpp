// Another conversation beside an attack: it creates, resumes and sends messages as clients do, and each
// request must succeed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/isolation/lab.hpp"

namespace atl::test {

/// How long each operation of a kind took.
struct Service {
    // "create" "message" "resume", "healthz" "message" beside work for the server
    std::map<std::string, std::vector<std::chrono::microseconds>> times;

    /// The 99th of 100.
    std::chrono::microseconds p99(const std::string& kind) const;
};

/// Works for so long, at least one round: creates a conversation, sends it messages, pauses it, resumes it by
/// a message, deletes it. Fails the test if anything is refused.
Service be_neighbour(Lab& lab, std::chrono::milliseconds duration = std::chrono::seconds(2));

/// Sends so many pairs of GET /healthz and a message to the agent echo, the first of each right behind
/// `work`. Fails the test if one is refused.
Service ask_beside(Lab& lab, const std::function<void()>& work, int pairs = 100);

/// Only with ATOLL_TEST_FULL=1: a p99 may be so many times the one beside the control, or so long, whichever
/// is more.
inline constexpr int k_slower_at_most = 3;
inline constexpr std::chrono::milliseconds k_always_allowed{25};

/// The kinds that are slower than allowed, with numbers; empty if none is.
std::string too_slow(const Service& beside_attack, const Service& beside_control);

}  // namespace atl::test
