#include "core/conversation/stored_turns.hpp"

namespace atl::conversation {

std::vector<TurnRecord> restored_turns(const StoredConversation& stored, Journal& journal) {
    std::vector<TurnRecord> turns = stored.turns;
    for (const LoggedTurn& logged : stored.unrecorded_turns) {
        if (turns.empty() || turns.back().turn != logged.turn) {
            TurnRecord& missing = turns.emplace_back();
            missing.conversation_key = stored.record.key;
            missing.turn = logged.turn;
            missing.first_seq = logged.first_seq;
        }
        if (!logged.done)
            continue;
        turns.back().last_seq = logged.last_seq;
        turns.back().bytes = logged.bytes;
        journal.add(PutTurn{turns.back()});
    }
    return turns;
}

}  // namespace atl::conversation
