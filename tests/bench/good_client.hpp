// A client that behaves: a message every 5 ms, each to its first event. What it feels of what others do.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "tests/bench/event_server.hpp"

namespace atl::bench {

/// What it measured, for the process that started it (shared.hpp).
struct Times {
    std::array<double, 16'384> ms;
    std::size_t count = 0;

    double p99() const;
};

void talk(const EventServer& server, const std::string& id, double for_ms, Times& times);

}  // namespace atl::bench
