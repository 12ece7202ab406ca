// Invariants of the committed log of every conversation, after any history.
#pragma once

#include <set>

#include "tests/support/fake_world.hpp"

namespace atl::test {

/// Numbers without gaps, turns that begin and end once, a sandbox that comes up only when it is down.
inline void check_log(const FakeStore& store) {
    std::int64_t key = -1;
    std::uint64_t seq = 0;
    std::uint64_t open_turn = 0;
    bool is_up = false;  // as the log tells it
    std::set<std::uint64_t> done;
    for (const auto& [id, event] : store.events) {
        if (id.first != key) {
            key = id.first;
            seq = id.second - 1;
            open_turn = 0;
            is_up = false;
            done.clear();
        }
        require(id.second == ++seq, "the log has a gap");
        const bool comes_up = event->type == conversation::EventType::sandbox_ready ||
                              event->type == conversation::EventType::sandbox_resumed;
        require(!comes_up || !is_up, "a sandbox comes up that was not told to be down");
        is_up = comes_up || (is_up && event->type != conversation::EventType::sandbox_paused &&
                             event->type != conversation::EventType::sandbox_terminated);
        if (event->turn == 0)
            continue;
        require(!done.contains(event->turn), "an event of a turn follows its done");
        require(open_turn == 0 || open_turn == event->turn, "two turns are open");
        open_turn = event->turn;
        if (event->type == conversation::EventType::done) {
            done.insert(event->turn);
            open_turn = 0;
        }
    }
}

}  // namespace atl::test
