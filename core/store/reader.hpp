// The reads of the conversations' database: one conversation, a page of a list, what a start needs. Internal
// to core/store.
//
// Invariants: each call is bounded, but for load_start(); no read stays open after a call, since an open read
// holds back checkpoints. Throws SQLite::Exception. Not here: writes, the log's events (sqlite_store.hpp).
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <optional>
#include <string>
#include <vector>

#include "core/conversation/store.hpp"

namespace atl::store {

class Reader {
  public:
    /// `database` has the tables of schema.hpp and outlives this.
    explicit Reader(SQLite::Database& database);

    conversation::StartState load_start();
    std::optional<conversation::StoredConversation> load(const std::string& id);
    conversation::Listed<conversation::ListedConversation> list(const conversation::ListRange& range);
    conversation::Listed<sandbox::Record> list_sandboxes(std::int64_t from_key, std::size_t limit);
    std::optional<sandbox::Record> find_sandbox(const std::string& id);
    std::size_t count_open(const std::string& user_id, std::size_t limit);
    std::vector<conversation::Ending> find_ending(bool has_ended, std::size_t limit);

  private:
    conversation::Record conversation_at(SQLite::Statement& row);
    std::uint64_t extreme(SQLite::Statement& query, std::int64_t key);
    void load_turns(conversation::StoredConversation& stored);
    void load_unrecorded_turns(conversation::StoredConversation& stored);
    void load_open_bytes(conversation::StoredConversation& stored);
    void find_left_events(conversation::StartState& state);

    SQLite::Database& database_;
    SQLite::Statement one_, sandbox_, first_event_, last_event_, last_turn_, turns_, unrecorded_, open_bytes_,
        next_log_, first_seq_;
};

}  // namespace atl::store
