// The reads of the conversations' database that the loop makes: rows by key, what a start needs. Internal to
// core/store.
//
// Invariants: each call reads a few rows by key (of kept processes k_max_kept_processes), but for
// load_start(); no read stays open after a call, since an open read holds back checkpoints. Throws
// SQLite::Exception. Not here: writes, the log's events (sqlite_store.hpp), lists (finder.hpp), turns
// (turn_reader.hpp).
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <optional>
#include <string>
#include <vector>

#include "core/conversation/store.hpp"
#include "core/store/rows.hpp"

namespace atl::store {

class Reader {
  public:
    /// `database` has the tables of schema.hpp and outlives this.
    explicit Reader(SQLite::Database& database);

    conversation::StartState load_start();
    /// Without what turn_reader.hpp reads: turns, and bytes of events.
    std::optional<conversation::StoredConversation> load_rows(const std::string& id);
    std::optional<conversation::ListedConversation> find_conversation(const std::string& id);
    std::optional<conversation::CreatedBefore> find_created(const std::string& create_key);
    std::optional<sandbox::Record> find_sandbox(const std::string& id);
    std::vector<conversation::Ending> find_ending(bool has_ended, std::size_t limit);

  private:
    std::optional<conversation::Record> find_record(const std::string& id);
    void load_kept_processes(conversation::StoredConversation& stored);
    void find_left_events(conversation::StartState& state);
    void find_resting_previews(conversation::StartState& state);
    void find_preview_numbers(conversation::StartState& state);

    SQLite::Database& database_;
    SQLite::Statement one_, sandbox_;
    LogEnds log_ends_;
    SQLite::Statement kept_processes_;
};

}  // namespace atl::store
