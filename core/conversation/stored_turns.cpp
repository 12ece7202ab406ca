#include "core/conversation/stored_turns.hpp"

#include <algorithm>

namespace atl::conversation {

std::vector<TurnRecord> restored_turns(const StoredConversation& stored, Journal& journal) {
    std::vector<TurnRecord> turns = stored.turns;
    for (const LoggedTurn& logged : stored.unrecorded_turns) {
        auto turn = std::ranges::lower_bound(turns, logged.turn, {}, &TurnRecord::turn);
        if (turn == turns.end() || turn->turn != logged.turn) {
            TurnRecord missing;
            missing.conversation_key = stored.record.key;
            missing.turn = logged.turn;
            missing.first_seq = logged.first_seq;
            turn = turns.insert(turn, missing);
        }
        // A complete record may lie between two that are not.
        if (!logged.done || turn->last_seq != 0)
            continue;
        turn->last_seq = logged.last_seq;
        turn->bytes = logged.bytes;
        journal.add(PutTurn{*turn});
    }
    return turns;
}

}  // namespace atl::conversation
