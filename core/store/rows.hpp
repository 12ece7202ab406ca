// Steps through rows, and the ends of logs. Internal to core/store. Throws SQLite::Exception.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>

#include "core/conversation/types.hpp"

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

}  // namespace atl::store
