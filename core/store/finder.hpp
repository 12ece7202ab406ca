// Reads of many rows: finds conversations and sandboxes for lists, and the turns that a load needs. The
// server has them made by a process of its own (list_reads.hpp), tests make them in place. Internal to
// core/store and to atoll-helper.
//
// A list of conversations walks the index of the filter that leaves the fewest rows, in the list's order, and
// looks at each row for the others.
// Invariants: each list of conversations looks at k_list_scan_items rows at most, for each of its filters; a
// list of a user's sandboxes and a count at what one user may have. No read stays open after a call, since an
// open read holds back checkpoints. Throws SQLite::Exception. Not here: single rows by key (reader.hpp).
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <string>
#include <variant>
#include <vector>

#include "core/store/questions.hpp"
#include "core/store/rows.hpp"
#include "core/store/turn_reader.hpp"

namespace atl::store {

class Finder {
  public:
    /// `database` has the tables of schema.hpp and outlives this.
    explicit Finder(SQLite::Database& database);

    conversation::ConversationList find(const conversation::ListRange& range);
    conversation::Listed<sandbox::Record> find(const conversation::SandboxRange& range);
    std::size_t find(const OpenCount& count);
    conversation::Listed<conversation::LogSize> find(const conversation::LogRange& range);
    std::vector<std::string> find(const LargestLogs& question);
    StoredTurns find(const TurnsOf& turns) { return turns_.read(turns.key); }
    /// The answer to the JSON text of a Question, as JSON text. For any other text it throws another
    /// exception.
    std::string answer(const std::string& question);

  private:
    using Values = std::vector<std::variant<std::int64_t, std::string>>;
    /// The rows that one filter leaves, in SQL.
    struct Walk {
        std::string from;  // with c, a conversation
        std::string where;
        Values values;          // of `where`
        std::string place;      // the table of created_at and key in the walk's order
        std::string counted{};  // `from` without what only reads the conversations; empty: the same
    };
    struct Page;

    static std::vector<Walk> walks_of(const conversation::ListFilter& filter);
    static void bind(SQLite::Statement& statement, const Values& values);
    std::size_t count(const Walk& walk, const conversation::ListFilter& filter, std::size_t limit);
    std::vector<conversation::ListPlace> find_active(const conversation::ListRange& range, std::size_t limit);
    void walk(const Walk& walk, const conversation::ListRange& range, Page& page);
    void visit(const std::vector<conversation::ListPlace>& places, Page& page);
    bool look(SQLite::Statement& row, Page& page);
    bool has_members(const conversation::ListFilter& filter, const conversation::ListPlace& place);

    SQLite::Database& database_;
    LogEnds log_ends_;
    SQLite::Statement sandbox_, by_key_, has_member_;
    TurnReader turns_;
};

}  // namespace atl::store
