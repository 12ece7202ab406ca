#include "core/store/reader.hpp"

#include <algorithm>
#include <utility>

#include "core/base/limits.hpp"
#include "core/store/env_text.hpp"
#include "core/store/row_ids.hpp"

namespace atl::store {

using conversation::Ending;
using conversation::Listed;
using conversation::ListedConversation;
using conversation::ListOrder;
using conversation::ListRange;
using conversation::LoggedTurn;
using conversation::Record;
using conversation::StartState;
using conversation::Status;
using conversation::StoredConversation;
using conversation::TurnRecord;

namespace {

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

std::uint64_t unsigned_at(SQLite::Statement& row, int column) {
    return static_cast<std::uint64_t>(row.getColumn(column).getInt64());
}

enum class Environment : std::uint8_t { left_out, parsed };

/// Column 0 is the key.
sandbox::Record sandbox_at(SQLite::Statement& row, Environment environment) {
    sandbox::Record record;
    record.id = row.getColumn(1).getString();
    record.conversation_id = row.getColumn(2).getString();
    record.generation = row.getColumn(3).getUInt();
    record.network = static_cast<sandbox::NetworkMode>(row.getColumn(4).getInt());
    record.limits.memory_mb = row.getColumn(5).getUInt();
    record.limits.cpu_percent = row.getColumn(6).getUInt();
    record.limits.disk_mb = row.getColumn(7).getUInt();
    record.limits.max_processes = row.getColumn(8).getUInt();
    if (environment == Environment::parsed)
        record.env = parse_env(row.getColumn(9).getString());
    record.metadata = row.getColumn(10).getString();
    record.created_at = wall(row.getColumn(11).getInt64());
    record.ttl_seconds = row.getColumn(12).getUInt();
    record.gone = row.getColumn(13).getInt() != 0;
    record.limits.max_sockets = row.getColumn(14).getUInt();
    record.limits.max_open_files = row.getColumn(15).getUInt();
    return record;
}

}  // namespace

Reader::Reader(SQLite::Database& database)
    : database_(database),
      one_(database, "SELECT * FROM conversations WHERE id = ?"),
      sandbox_(database, "SELECT * FROM sandboxes WHERE id = ?"),
      first_event_(database, "SELECT min(id) FROM events WHERE id >= ? AND id < ?"),
      last_event_(database, "SELECT max(id) FROM events WHERE id >= ? AND id < ?"),
      last_turn_(database, "SELECT max(id) FROM turns WHERE id >= ? AND id < ?"),
      turns_(database,
             "SELECT id, first_seq, last_seq, bytes, idempotency_key, content_digest FROM turns "
             "WHERE id >= ? AND id < ? ORDER BY id"),
      unrecorded_(database,
                  "SELECT turn, min(id), max(id), max(type = ?4), sum(length(CAST(json AS BLOB))) "
                  "FROM events WHERE id > ?1 AND id < ?2 AND turn > ?3 GROUP BY turn ORDER BY turn"),
      open_bytes_(database, "SELECT sum(length(CAST(json AS BLOB))) FROM events WHERE id > ? AND id < ?"),
      next_log_(database, "SELECT min(id) FROM events WHERE id >= ?"),
      first_seq_(database, "SELECT first_seq FROM conversations WHERE key = ?") {}

/// The lowest or highest number below `key` that has a row; 0: none.
std::uint64_t Reader::extreme(SQLite::Statement& query, std::int64_t key) {
    Rows rows(query);
    rows->bind(1, row_id(key, 0));
    rows->bind(2, row_id(key + 1, 0));
    rows.next();
    return rows->getColumn(0).isNull() ? 0 : low_of(rows->getColumn(0).getInt64());
}

Record Reader::conversation_at(SQLite::Statement& row) {
    Record record;
    record.key = row.getColumn(0).getInt64();
    record.id = row.getColumn(1).getString();
    record.agent = row.getColumn(2).getString();
    if (!row.getColumn(3).isNull())
        record.user_id = row.getColumn(3).getString();
    record.metadata = row.getColumn(4).getString();
    record.sandbox_id = row.getColumn(5).getString();
    record.status = static_cast<Status>(row.getColumn(6).getInt());
    record.reason = static_cast<conversation::PauseReason>(row.getColumn(7).getInt());
    record.idle_seconds = row.getColumn(8).getUInt();
    record.ttl_seconds = row.getColumn(9).getUInt();
    record.created_at = wall(row.getColumn(10).getInt64());
    record.last_active_at = wall(row.getColumn(11).getInt64());
    record.first_seq = std::max(unsigned_at(row, 12), extreme(first_event_, record.key));
    record.last_seq = std::max(extreme(last_event_, record.key), record.first_seq - 1);
    return record;
}

std::optional<sandbox::Record> Reader::find_sandbox(const std::string& id) {
    Rows rows(sandbox_);
    rows->bindNoCopy(1, id);
    if (!rows.next())
        return std::nullopt;
    return sandbox_at(*rows.operator->(), Environment::parsed);
}

std::optional<StoredConversation> Reader::load(const std::string& id) {
    StoredConversation stored;
    {
        Rows rows(one_);
        rows->bindNoCopy(1, id);
        if (!rows.next())
            return std::nullopt;
        stored.record = conversation_at(one_);
    }
    if (auto found = find_sandbox(stored.record.sandbox_id))
        stored.sandbox = std::move(*found);
    load_turns(stored);
    load_unrecorded_turns(stored);
    load_open_bytes(stored);
    return stored;
}

void Reader::load_turns(StoredConversation& stored) {
    const std::int64_t key = stored.record.key;
    stored.record.last_turn = extreme(last_turn_, key);
    Rows rows(turns_);
    rows->bind(1, row_id(key, 0));
    rows->bind(2, row_id(key + 1, 0));
    while (rows.next()) {
        TurnRecord turn;
        turn.conversation_key = key;
        turn.turn = low_of(rows->getColumn(0).getInt64());
        turn.first_seq = unsigned_at(turns_, 1);
        turn.last_seq = unsigned_at(turns_, 2);
        turn.bytes = unsigned_at(turns_, 3);
        if (turn.last_seq == 0) {
            turn.idempotency_key = rows->getColumn(4).isNull() ? "" : rows->getColumn(4).getString();
            turn.content_digest = rows->getColumn(5).getString();
        }
        stored.turns.push_back(std::move(turn));
    }
}

/// Only turns from the first open one on, or after the last one, can have no record or one that is open.
void Reader::load_unrecorded_turns(StoredConversation& stored) {
    std::uint64_t recorded_seq = 0;
    std::uint64_t recorded_turn = 0;
    const auto open = std::ranges::find(stored.turns, std::uint64_t{0}, &TurnRecord::last_seq);
    if (open != stored.turns.end()) {
        recorded_seq = open->first_seq - 1;
        recorded_turn = open->turn - 1;
    } else if (!stored.turns.empty()) {
        recorded_seq = stored.turns.back().last_seq;
        recorded_turn = stored.turns.back().turn;
    }
    Rows rows(unrecorded_);
    rows->bind(1, row_id(stored.record.key, recorded_seq));
    rows->bind(2, row_id(stored.record.key + 1, 0));
    rows->bind(3, static_cast<std::int64_t>(recorded_turn));
    rows->bind(4, static_cast<int>(conversation::EventType::done));
    while (rows.next()) {
        LoggedTurn logged;
        logged.turn = unsigned_at(unrecorded_, 0);
        logged.first_seq = low_of(rows->getColumn(1).getInt64());
        logged.last_seq = low_of(rows->getColumn(2).getInt64());
        logged.done = rows->getColumn(3).getInt() != 0;
        logged.bytes = unsigned_at(unrecorded_, 4);
        stored.unrecorded_turns.push_back(logged);
    }
}

void Reader::load_open_bytes(StoredConversation& stored) {
    std::uint64_t finished_seq = 0;
    for (const TurnRecord& turn : stored.turns)
        finished_seq = std::max(finished_seq, turn.last_seq);
    for (const LoggedTurn& turn : stored.unrecorded_turns)
        finished_seq = std::max(finished_seq, turn.last_seq);
    Rows rows(open_bytes_);
    rows->bind(1, row_id(stored.record.key, finished_seq));
    rows->bind(2, row_id(stored.record.key + 1, 0));
    rows.next();
    stored.open_bytes = rows->getColumn(0).isNull() ? 0 : unsigned_at(open_bytes_, 0);
}

Listed<ListedConversation> Reader::list(const ListRange& range) {
    const bool is_newest_first = range.order == ListOrder::newest_first;
    std::string sql = "SELECT * FROM conversations WHERE ";
    sql += range.user_id ? "user_id = ?3 AND " : "";
    sql += is_newest_first ? "(?1 = 0 OR key < ?1) ORDER BY key DESC" : "key > ?1 ORDER BY key";
    sql += " LIMIT ?2";
    SQLite::Statement statement(database_, sql);
    Rows rows(statement);
    rows->bind(1, range.from_key);
    rows->bind(2, static_cast<std::int64_t>(base::k_list_scan_items) + 1);
    if (range.user_id)
        rows->bindNoCopy(3, *range.user_id);
    Listed<ListedConversation> listed;
    std::size_t bytes = 0;
    std::int64_t last = 0;
    for (std::size_t seen = 0; rows.next(); ++seen) {
        if (listed.items.size() == range.limit || bytes > base::k_list_page_bytes ||
            seen == base::k_list_scan_items) {
            listed.next_key = last;
            break;
        }
        last = rows->getColumn(0).getInt64();
        if (range.status && static_cast<Status>(rows->getColumn(6).getInt()) != *range.status)
            continue;
        ListedConversation& item = listed.items.emplace_back();
        item.record = conversation_at(statement);
        bytes += item.record.metadata.size() + base::k_list_item_bytes;
        Rows sandbox(sandbox_);
        sandbox->bindNoCopy(1, item.record.sandbox_id);
        if (sandbox.next())
            item.sandbox = sandbox_at(sandbox_, Environment::left_out);
    }
    return listed;
}

Listed<sandbox::Record> Reader::list_sandboxes(std::int64_t from_key, std::size_t limit) {
    SQLite::Statement statement(database_, "SELECT * FROM sandboxes WHERE key > ? ORDER BY key LIMIT ?");
    Rows rows(statement);
    rows->bind(1, from_key);
    rows->bind(2, static_cast<std::int64_t>(base::k_list_scan_items) + 1);
    Listed<sandbox::Record> listed;
    std::size_t bytes = 0;
    std::int64_t last = 0;
    for (std::size_t seen = 0; rows.next(); ++seen) {
        if (listed.items.size() == limit || bytes > base::k_list_page_bytes ||
            seen == base::k_list_scan_items) {
            listed.next_key = last;
            break;
        }
        last = rows->getColumn(0).getInt64();
        sandbox::Record record = sandbox_at(statement, Environment::left_out);
        if (record.gone)
            continue;
        bytes += record.metadata.size() + base::k_list_item_bytes;
        listed.items.push_back(std::move(record));
    }
    return listed;
}

std::size_t Reader::count_open(const std::string& user_id, std::size_t limit) {
    SQLite::Statement statement(database_,
                                "SELECT count(*) FROM (SELECT 1 FROM conversations WHERE user_id = ?1 AND "
                                "status <> ?2 LIMIT ?3)");
    Rows rows(statement);
    rows->bindNoCopy(1, user_id);
    rows->bind(2, static_cast<int>(Status::ended));
    rows->bind(3, static_cast<std::int64_t>(limit));
    rows.next();
    return unsigned_at(statement, 0);
}

std::vector<Ending> Reader::find_ending(bool has_ended, std::size_t limit) {
    // The conditions are those of the two indexes, word for word.
    SQLite::Statement statement(database_,
                                std::string("SELECT id, created_at, ttl_seconds FROM conversations WHERE ") +
                                    (has_ended ? "status = 3" : "ttl_seconds > 0 AND status <> 3") +
                                    " ORDER BY created_at + 1000 * ttl_seconds LIMIT ?");
    Rows rows(statement);
    rows->bind(1, static_cast<std::int64_t>(limit));
    std::vector<Ending> found;
    while (rows.next())
        found.push_back({rows->getColumn(0).getString(), wall(rows->getColumn(1).getInt64()),
                         std::chrono::seconds(rows->getColumn(2).getInt64())});
    return found;
}

StartState Reader::load_start() {
    StartState state;
    SQLite::Statement conversations(database_,
                                    "SELECT key, id, status, reason, sandbox_id FROM conversations");
    while (conversations.executeStep()) {
        const auto status = static_cast<Status>(conversations.getColumn(2).getInt());
        ++state.by_status[status];
        state.last_key = std::max(state.last_key, conversations.getColumn(0).getInt64());
        bool is_unfinished = status == Status::active || status == Status::starting;
        if (status == Status::ended) {
            Rows sandbox(sandbox_);
            sandbox->bind(1, conversations.getColumn(4).getString());
            is_unfinished = sandbox.next() && sandbox->getColumn(13).getInt() == 0;
        }
        if (is_unfinished)
            state.unfinished.push_back(conversations.getColumn(1).getString());
    }
    SQLite::Statement open_turns(
        database_, "SELECT conversations.id FROM turns JOIN conversations ON key = turns.id >> " +
                       std::to_string(k_seq_bits) + " WHERE turns.last_seq = 0");
    while (open_turns.executeStep())
        state.unfinished.push_back(open_turns.getColumn(0).getString());
    SQLite::Statement sandboxes(
        database_,
        "SELECT sandboxes.*, conversation_id <> '' AND NOT EXISTS (SELECT 1 FROM conversations "
        "WHERE conversations.id = sandboxes.conversation_id AND sandbox_id = sandboxes.id) "
        "FROM sandboxes WHERE gone = 0 ORDER BY key");
    while (sandboxes.executeStep()) {
        const bool is_abandoned = sandboxes.getColumn(16).getInt() != 0;
        if (is_abandoned) {
            state.abandoned.push_back(sandbox_at(sandboxes, Environment::left_out));
        } else if (sandboxes.getColumn(2).getString().empty()) {
            state.standalone.push_back(sandbox_at(sandboxes, Environment::parsed));
        } else {
            sandbox::Record& owned = state.owned.emplace_back();
            owned.id = sandboxes.getColumn(1).getString();
            owned.generation = sandboxes.getColumn(3).getUInt();
            owned.limits.memory_mb = sandboxes.getColumn(5).getUInt();
        }
    }
    find_left_events(state);
    return state;
}

/// Skips from log to log through the primary key instead of walking every event.
void Reader::find_left_events(StartState& state) {
    for (std::int64_t from = 0;;) {
        Rows next(next_log_);
        next->bind(1, from);
        next.next();
        if (next->getColumn(0).isNull())
            return;
        const std::int64_t id = next->getColumn(0).getInt64();
        const std::int64_t key = key_of(id);
        Rows owner(first_seq_);
        owner->bind(1, key);
        const std::uint64_t begins =
            owner.next() ? unsigned_at(first_seq_, 0) : std::uint64_t{1} << k_seq_bits;
        if (low_of(id) < begins)
            state.left_events.push_back({key, begins});
        state.last_key = std::max(state.last_key, key);
        from = row_id(key + 1, 0);
    }
}

}  // namespace atl::store
