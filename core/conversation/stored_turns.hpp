// The turns of a conversation that the store has, for a later run of the server that goes on with them.
// Internal to core/conversation.
#pragma once

#include <vector>

#include "core/conversation/journal.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {

/// The turns in order. The store writes the record of a turn behind its events. Records that the last server
/// did not get to are made up for from the log, and given to `journal`. An open turn has no `done` in the
/// log.
std::vector<TurnRecord> restored_turns(const StoredConversation& stored, Journal& journal);

}  // namespace atl::conversation
