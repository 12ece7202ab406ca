// The other clients of a load: idle and active WebSockets and, when told to, hostile ones: subscribers that
// never read, and ones that come and go. One process, one epoll loop, driven through LoadControl.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/bench/event_server.hpp"

namespace atl::bench {

struct LoadPlan {
    std::size_t idle = 0;
    std::vector<std::string> rooms;  // conversations of `echo`: each has active subscribers, and a turn
    std::size_t subscribers_a_room = 0;
    double turn_every_ms = 200;  // of a room
    std::string flood;           // a conversation with a log that no socket buffers hold
    std::size_t never_reading = 0;
    double cut_within_ms = 0;  // that they are waited for to be cut off; 0: not at all
    double come_and_go_per_s = 100;
};

/// Shared by the load clients' process and the measuring process (shared.hpp).
struct LoadControl {
    std::atomic<bool> ready{false};    // all idle and active ones are there
    std::atomic<bool> hostile{false};  // set by the measuring process
    std::atomic<bool> stop{false};     // likewise
    std::atomic<std::size_t> turns{0};
    std::atomic<std::size_t> came_and_went{0};
    std::atomic<std::size_t> cut_off{0};  // of those that never read
};

/// Runs until `stop`. Throws unless every active subscriber has got every turn of its room, and no idle or
/// active one was closed.
void run_load_clients(const EventServer& server, const LoadPlan& plan, LoadControl& control);

}  // namespace atl::bench
