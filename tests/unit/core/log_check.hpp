// Invariants of the committed log of every conversation, after any history, and of what programs are told of
// it.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

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
        const bool is_start = event->type == conversation::EventType::turn_start;
        require(is_start == (open_turn == 0), "a turn does not begin with its one turn_start");
        open_turn = event->turn;
        if (event->type == conversation::EventType::done) {
            done.insert(event->turn);
            open_turn = 0;
        }
    }
}

/// Checks each line that tells a program of past turns: they are its conversation's, over, and in order.
class Told {
  public:
    void check(const FakeWorld& world) {
        for (const auto& [pid, process] : world.processes) {
            if (!process->resume.empty() && seen_.insert(process->resume).second)
                check(world.store, *process);
        }
    }
    std::size_t turns() const noexcept { return turns_; }

  private:
    void check(const FakeStore& store, const FakeProcessState& process) {
        const auto line = nlohmann::json::parse(process.resume);
        require(line["generation"] == process.generation, "a program was told of another generation");
        std::uint64_t last = 0;
        for (const auto& one : line["turns"]) {
            const std::uint64_t turn = std::stoull(one["turn"].get<std::string>().substr(1));
            require(turn > last, "a program was told of turns in disorder");
            require(one["content"] == "hello", "a program was told of another message");
            check_over(store, line["sessionId"], turn);
            last = turn;
            ++turns_;
        }
    }

    /// The rows of a log are removed from its beginning.
    static void check_over(const FakeStore& store, const std::string& id, std::uint64_t turn) {
        bool is_there = false;
        bool is_done = false;
        for (const auto& [at, event] : store.events) {
            const auto owner = store.conversations.find(at.first);
            if (event->turn != turn || owner == store.conversations.end() || owner->second.id != id)
                continue;
            is_there = true;
            is_done = event->type == conversation::EventType::done;
        }
        require(is_done || !is_there, "a program was told of an open turn");
    }

    std::set<std::string> seen_;
    std::size_t turns_ = 0;
};

}  // namespace atl::test
