#include "core/store/reader.hpp"

#include <algorithm>
#include <utility>

#include "core/base/limits.hpp"
#include "core/store/process_text.hpp"
#include "core/store/row_ids.hpp"
#include "core/store/rows.hpp"

namespace atl::store {

using conversation::Ending;
using conversation::LoggedTurn;
using conversation::StartState;
using conversation::Status;
using conversation::StoredConversation;
using conversation::TurnRecord;

Reader::Reader(SQLite::Database& database)
    : database_(database),
      one_(database, "SELECT * FROM conversations WHERE id = ?"),
      sandbox_(database, "SELECT * FROM sandboxes WHERE id = ?"),
      log_ends_(database),
      last_turn_(database, "SELECT max(id) FROM turns WHERE id >= ? AND id < ?"),
      turns_(database,
             "SELECT id, first_seq, last_seq, bytes, idempotency_key, content_digest FROM turns "
             "WHERE id >= ? AND id < ? ORDER BY id"),
      unrecorded_(database,
                  "SELECT turn, min(id), max(id), max(type = ?4), sum(length(CAST(json AS BLOB))) "
                  "FROM events WHERE id > ?1 AND id < ?2 AND turn > ?3 GROUP BY turn ORDER BY turn"),
      kept_processes_(database, "SELECT id, spec FROM kept_processes WHERE id >= ? AND id < ? ORDER BY id"),
      open_bytes_(database, "SELECT sum(length(CAST(json AS BLOB))) FROM events WHERE id > ? AND id < ?") {}

std::optional<sandbox::Record> Reader::find_sandbox(const std::string& id) {
    return find_sandbox(id, Environment::parsed);
}

std::optional<sandbox::Record> Reader::find_sandbox(const std::string& id, Environment environment) {
    Rows rows(sandbox_);
    rows->bindNoCopy(1, id);
    if (!rows.next())
        return std::nullopt;
    return sandbox_at(*rows.operator->(), environment);
}

std::optional<conversation::Record> Reader::find_record(const std::string& id) {
    Rows rows(one_);
    rows->bindNoCopy(1, id);
    if (!rows.next())
        return std::nullopt;
    auto record = conversation_at(one_);
    log_ends_.set(record);
    return record;
}

std::optional<conversation::ListedConversation> Reader::find_conversation(const std::string& id) {
    auto record = find_record(id);
    if (!record)
        return std::nullopt;
    conversation::ListedConversation found;
    found.record = std::move(*record);
    if (auto box = find_sandbox(found.record.sandbox_id, Environment::left_out))
        found.sandbox = std::move(*box);
    return found;
}

std::optional<StoredConversation> Reader::load(const std::string& id) {
    StoredConversation stored;
    auto record = find_record(id);
    if (!record)
        return std::nullopt;
    stored.record = std::move(*record);
    if (auto found = find_sandbox(stored.record.sandbox_id))
        stored.sandbox = std::move(*found);
    load_turns(stored);
    load_unrecorded_turns(stored);
    load_open_bytes(stored);
    load_kept_processes(stored);
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

void Reader::load_kept_processes(StoredConversation& stored) {
    Rows rows(kept_processes_);
    rows->bind(1, row_id(stored.record.key, 0));
    rows->bind(2, row_id(stored.record.key + 1, 0));
    while (rows.next()) {
        const auto number = static_cast<std::uint32_t>(low_of(rows->getColumn(0).getInt64()));
        stored.kept_processes.push_back({number, parse_process(rows->getColumn(1).getString())});
    }
}

std::optional<conversation::CreatedBefore> Reader::find_created(const std::string& create_key) {
    SQLite::Statement statement(database_,
                                "SELECT id, create_digest FROM conversations WHERE create_key = ?");
    Rows rows(statement);
    rows->bindNoCopy(1, create_key);
    if (!rows.next())
        return std::nullopt;
    return conversation::CreatedBefore{rows->getColumn(0).getString(), rows->getColumn(1).getString()};
}

std::vector<Ending> Reader::find_ending(bool has_ended, std::size_t limit) {
    // The conditions are those of the two indexes, word for word. Left to itself SQLite may take the index by
    // status, and sort.
    SQLite::Statement statement(
        database_, std::string("SELECT id, created_at, ttl_seconds FROM conversations INDEXED BY ") +
                       (has_ended ? "ended_conversations WHERE status = 3"
                                  : "conversations_by_end WHERE ttl_seconds > 0 AND status <> 3") +
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
    SQLite::Statement counts(database_, "SELECT status, count(*) FROM conversations GROUP BY status");
    while (counts.executeStep())
        state.by_status[static_cast<Status>(counts.getColumn(0).getInt())] =
            static_cast<std::size_t>(counts.getColumn(1).getInt64());
    // 0, 1 and 3 are starting, active and ended.
    SQLite::Statement unfinished(database_,
                                 "SELECT id FROM conversations WHERE status IN (0, 1) UNION ALL "
                                 "SELECT c.id FROM conversations c CROSS JOIN sandboxes s ON "
                                 "s.id = c.sandbox_id WHERE c.status = 3 AND s.gone = 0");
    while (unfinished.executeStep())
        state.unfinished.push_back(unfinished.getColumn(0).getString());
    SQLite::Statement open_turns(
        database_, "SELECT conversations.id FROM turns JOIN conversations ON key = turns.id >> " +
                       std::to_string(k_seq_bits) + " WHERE turns.last_seq = 0");
    while (open_turns.executeStep())
        state.unfinished.push_back(open_turns.getColumn(0).getString());
    // The conditions are those of the indexes, word for word.
    SQLite::Statement standalone(database_,
                                 "SELECT * FROM sandboxes INDEXED BY standalone_sandboxes WHERE "
                                 "conversation_id = '' AND gone = 0 ORDER BY key");
    while (standalone.executeStep())
        state.standalone.push_back(sandbox_at(standalone, Environment::parsed));
    SQLite::Statement abandoned(database_,
                                "SELECT * FROM sandboxes INDEXED BY present_sandboxes WHERE gone = 0 AND "
                                "conversation_id > '' AND NOT EXISTS (SELECT 1 FROM "
                                "conversations WHERE conversations.id = sandboxes.conversation_id)");
    while (abandoned.executeStep())
        state.abandoned.push_back(sandbox_at(abandoned, Environment::left_out));
    SQLite::Statement present(database_,
                              "SELECT count(*) FROM sandboxes INDEXED BY present_sandboxes WHERE gone = 0");
    present.executeStep();
    state.sandboxes = unsigned_at(present, 0);
    find_preview_numbers(state);
    find_left_events(state);
    return state;
}

void Reader::find_preview_numbers(StartState& state) {
    SQLite::Statement rows(database_,
                           "SELECT number, CASE WHEN EXISTS (SELECT 1 FROM sandboxes WHERE "
                           "id = sandbox_id AND gone = 0) THEN sandbox_id ELSE '' END, freed, stale FROM "
                           "preview_numbers");
    while (rows.executeStep())
        state.preview_numbers.push_back({static_cast<std::uint16_t>(rows.getColumn(0).getInt()),
                                         rows.getColumn(1).getString(), unsigned_at(rows, 2),
                                         rows.getColumn(3).getInt() != 0});
}

void Reader::find_left_events(StartState& state) {
    SQLite::Statement purges(database_, "SELECT key, below_seq FROM purges");
    while (purges.executeStep())
        state.left_events.push_back({purges.getColumn(0).getInt64(), unsigned_at(purges, 1)});
    // A log that is left keeps its key.
    SQLite::Statement last(database_,
                           "SELECT max(ifnull((SELECT max(key) FROM conversations), 0), "
                           "ifnull((SELECT max(key) FROM purges), 0))");
    last.executeStep();
    state.last_key = last.getColumn(0).getInt64();
}

}  // namespace atl::store
