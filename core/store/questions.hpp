// The questions that a process of its own answers from the database, and the answer that only a load gets.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/conversation/store.hpp"

namespace atl::store {

/// The parts of StoredConversation that are read apart from its other rows.
struct StoredTurns {
    std::uint64_t last_turn = 0;  // of the records, with those of turns that were cut from the log
    std::vector<conversation::TurnRecord> turns;
    std::vector<conversation::LoggedTurn> unrecorded;
    std::uint64_t open_bytes = 0;
    conversation::OpenQuestions open_questions;

    void move_to(conversation::StoredConversation& stored);
};

/// Asks how many conversations of a user have not ended; counts to `limit` at most.
struct OpenCount {
    std::string user_id;
    std::size_t limit = 0;
};
/// Asks for the turns of a conversation.
struct TurnsOf {
    std::int64_t key = 0;
};
/// Asks for the ids of conversations with the largest logs.
struct LargestLogs {
    std::size_t limit = 0;
};
using Question = std::variant<conversation::ListRange, conversation::SandboxRange, OpenCount, TurnsOf,
                              conversation::LogRange, LargestLogs>;

}  // namespace atl::store
