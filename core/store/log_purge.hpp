// Removes what belongs to nobody any more from one log: the events of cut and of erased logs, and the turns
// that ended in them. Internal to core/store. Throws SQLite::Exception; the caller makes the transaction.
//
// Invariants: a call removes a bounded number of rows and bytes, from the front; a cut log keeps its last
// turn's row, since the next turn's number follows that one's. Not here: when it is called (Journal).
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>

#include "core/conversation/store.hpp"

namespace atl::store {

class LogPurge {
  public:
    /// `database` has the tables of schema.hpp and outlives this.
    explicit LogPurge(SQLite::Database& database);

    /// Removes rows as Store::purge_log() says.
    conversation::Purged remove(std::int64_t key, std::uint64_t below_seq, conversation::PurgeBound bound);

  private:
    conversation::Purged remove_events(std::int64_t begin, std::int64_t end, conversation::PurgeBound bound);
    std::size_t remove_turns(std::int64_t key, std::uint64_t below_seq, std::size_t most);

    SQLite::Statement events_, remove_events_, remove_turns_, remove_cut_turns_, purged_;
};

}  // namespace atl::store
