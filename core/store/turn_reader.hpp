// Reads the turns of one conversation, and the parts of the events behind them that a load needs: as many
// rows as its log has. A helper process does it for the server (list_reads.hpp); a start, which serves nobody
// yet, and tests do it in place. Internal to core/store and to atoll-helper.
//
// Invariants: every read is a range of one b-tree, the conversation's own; the result is bounded, however
// long the log is; what was cut from the log and is still to be purged is in none of it, but for the number
// of the last turn; no read stays open after a call. Throws SQLite::Exception. Not here: rows by key
// (reader.hpp).
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <vector>

#include "core/store/questions.hpp"
#include "core/store/rows.hpp"

namespace atl::store {

class TurnReader {
  public:
    /// `database` has the tables of schema.hpp and outlives this.
    explicit TurnReader(SQLite::Database& database);

    StoredTurns read(std::int64_t key);

  private:
    conversation::Record beginning_of(std::int64_t key);
    void read_turns(std::int64_t key, std::uint64_t first_seq, StoredTurns& found);
    void read_unrecorded(std::int64_t key, std::uint64_t first_seq, StoredTurns& found);
    void read_open_bytes(std::int64_t key, std::uint64_t finished_seq, StoredTurns& found);
    void read_questions(std::int64_t key, std::uint64_t from_seq, StoredTurns& found);

    LogEnds log_ends_;
    SQLite::Statement beginning_, last_turn_, sums_, turns_, unrecorded_, open_bytes_, questions_;
};

}  // namespace atl::store
