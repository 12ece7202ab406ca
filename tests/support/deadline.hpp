// How long a test waits, and whether it measures.
#pragma once

#include <chrono>
#include <cstdlib>

namespace atl::test {

/// For what must come. It ends a hang and says nothing about speed: what it bounds takes less than a second,
/// but on a machine with few processors and other work.
inline constexpr std::chrono::seconds k_client_deadline{60};

/// The same for poll(2).
inline constexpr int k_client_deadline_ms = static_cast<int>(k_client_deadline.count()) * 1000;

/// Looks again and again until `condition` holds; false after k_client_deadline.
template <class Condition>
bool eventually(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (!condition())
        if (std::chrono::steady_clock::now() > deadline)
            return false;
    return true;
}

/// True if upper bounds on times, rates and memory are checked, too. The gate does not: it must pass on
/// a slow machine.
inline bool checks_bounds() {
    return std::getenv("ATOLL_TEST_FULL") != nullptr;
}

}  // namespace atl::test
