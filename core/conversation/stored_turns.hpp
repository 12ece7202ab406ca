// The turns of a conversation that the store has, as a later run of the server goes on with them. Internal to
// core/conversation.
#pragma once

#include <vector>

#include "core/conversation/journal.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {

/// The record of a turn is written behind its events: records that the last server did not get to are made
/// up for from the log, and given to `journal`. In order. One that is open has no `done` in the log.
std::vector<TurnRecord> restored_turns(const StoredConversation& stored, Journal& journal);

}  // namespace atl::conversation
