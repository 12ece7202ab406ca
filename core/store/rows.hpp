// Rows of the conversations' database as values. Internal to core/store. Throws SQLite::Exception, also for a
// row that no server wrote: the file may be a restored or a copied one.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>

#include "core/conversation/types.hpp"
#include "core/sandbox/types.hpp"

namespace atl::store {

/// A statement that is reset at the end, also by an exception.
class Rows {
  public:
    explicit Rows(SQLite::Statement& statement) : statement_(statement) { statement_.reset(); }
    ~Rows() { statement_.tryReset(); }
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    bool next() { return statement_.executeStep(); }
    SQLite::Statement* operator->() { return &statement_; }

  private:
    SQLite::Statement& statement_;
};

/// The lowest or highest number below `key` that has a row, as `query` asks with the two ends of the key's
/// range; 0: none.
std::uint64_t extreme(SQLite::Statement& query, std::int64_t key);

/// Where logs begin and end.
class LogEnds {
  public:
    explicit LogEnds(SQLite::Database& database);
    /// The seqs of a conversation as its log says.
    void set(conversation::Record& record);

  private:
    SQLite::Statement first_, last_;
};

std::uint64_t unsigned_at(SQLite::Statement& row, int column);

/// Of a row with all columns of `conversations`; what the log says is left out: last_seq, last_turn.
conversation::Record conversation_at(SQLite::Statement& row);

enum class Environment : std::uint8_t { left_out, parsed };
/// Of a row that begins with all columns of `sandboxes`.
sandbox::Record sandbox_at(SQLite::Statement& row, Environment environment);

}  // namespace atl::store
