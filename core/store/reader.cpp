#include "core/store/reader.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/store/record_text.hpp"
#include "core/store/row_ids.hpp"
#include "core/store/rows.hpp"

namespace atl::store {

using conversation::Ending;
using conversation::StartState;
using conversation::Status;
using conversation::StoredConversation;

Reader::Reader(SQLite::Database& database)
    : database_(database),
      one_(database, select<conversation::Record>() + "conversations WHERE id = ?"),
      sandbox_(database, select<sandbox::Record>() + "sandboxes WHERE id = ?"),
      log_ends_(database),
      kept_processes_(database, "SELECT * FROM kept_processes WHERE id >= ? AND id < ? ORDER BY id") {}

std::optional<sandbox::Record> Reader::find_sandbox(const std::string& id) {
    Rows rows(sandbox_);
    rows->bindNoCopy(1, id);
    if (!rows.next())
        return std::nullopt;
    return read_row<sandbox::Record>(sandbox_);
}

std::optional<conversation::Record> Reader::find_record(const std::string& id) {
    Rows rows(one_);
    rows->bindNoCopy(1, id);
    if (!rows.next())
        return std::nullopt;
    auto record = read_row<conversation::Record>(one_);
    log_ends_.set(record);
    return record;
}

std::optional<conversation::ListedConversation> Reader::find_conversation(const std::string& id) {
    auto record = find_record(id);
    if (!record)
        return std::nullopt;
    conversation::ListedConversation found;
    found.record = std::move(*record);
    if (auto box = find_sandbox(found.record.sandbox_id))
        found.sandbox = std::move(*box);
    return found;
}

std::optional<StoredConversation> Reader::load_rows(const std::string& id) {
    StoredConversation stored;
    auto record = find_record(id);
    if (!record)
        return std::nullopt;
    stored.record = std::move(*record);
    if (auto found = find_sandbox(stored.record.sandbox_id))
        stored.sandbox = std::move(*found);
    load_kept_processes(stored);
    return stored;
}

void Reader::load_kept_processes(StoredConversation& stored) {
    Rows rows(kept_processes_);
    rows->bind(1, row_id(stored.record.key, 0));
    rows->bind(2, row_id(stored.record.key + 1, 0));
    while (rows.next()) {
        auto& process = stored.kept_processes.emplace_back();
        process.number = static_cast<std::uint32_t>(low_of(rows->getColumn(0).getInt64()));
        read_rest(kept_processes_, process.spec);
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
        database_,
        std::string("SELECT key, id, created_at, 1000 * ttl_seconds FROM conversations INDEXED BY ") +
            (has_ended ? "ended_by_age WHERE status = 3"
                       : "conversations_by_end WHERE ttl_seconds > 0 AND status <> 3") +
            " ORDER BY created_at + 1000 * ttl_seconds LIMIT ?");
    Rows rows(statement);
    rows->bind(1, static_cast<std::int64_t>(limit));
    std::vector<Ending> found;
    while (rows.next())
        read_columns(statement, found.emplace_back());
    return found;
}

StartState Reader::load_start() {
    StartState state;
    SQLite::Statement counts(database_, "SELECT key, status, count(*) FROM conversations GROUP BY status");
    while (counts.executeStep()) {
        Status status{};
        if (!read_column(counts.getColumn(1), status, {}))
            refuse<conversation::Record>(counts, "status", counts.getColumn(1).getString());
        state.by_status[status] = unsigned_at(counts, 2);
    }
    // 0, 1 and 3 are starting, active and ended.
    SQLite::Statement unfinished(database_,
                                 "SELECT id FROM conversations WHERE status IN (0, 1) UNION ALL "
                                 "SELECT c.id FROM conversations c INDEXED BY ended_by_age CROSS JOIN "
                                 "sandboxes s INDEXED BY present_by_conversation ON "
                                 "s.conversation_id = c.id WHERE c.status = 3 AND s.gone = 0");
    while (unfinished.executeStep())
        state.unfinished.push_back(unfinished.getColumn(0).getString());
    SQLite::Statement open_turns(
        database_, "SELECT conversations.id FROM turns JOIN conversations ON key = turns.id >> " +
                       std::to_string(k_seq_bits) + " WHERE turns.last_seq = 0");
    while (open_turns.executeStep())
        state.unfinished.push_back(open_turns.getColumn(0).getString());
    // The conditions are those of the indexes, word for word.
    SQLite::Statement standalone(database_, select<sandbox::Record>() +
                                                "sandboxes INDEXED BY standalone_sandboxes WHERE "
                                                "conversation_id IS NULL AND gone = 0 ORDER BY key");
    while (standalone.executeStep())
        state.standalone.push_back(read_row<sandbox::Record>(standalone));
    SQLite::Statement abandoned(database_,
                                select<sandbox::Record>(Columns::listed) +
                                    "sandboxes INDEXED BY present_by_conversation WHERE gone = 0 AND "
                                    "conversation_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "
                                    "conversations WHERE conversations.id = sandboxes.conversation_id)");
    while (abandoned.executeStep())
        state.abandoned.push_back(read_row<sandbox::Record>(abandoned));
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
                           "id = sandbox_id AND gone = 0) THEN sandbox_id END, freed, stale, (SELECT "
                           "ifnull(s.user_id, c.user_id) FROM sandboxes s LEFT JOIN conversations c ON "
                           "c.id = s.conversation_id WHERE s.id = preview_numbers.sandbox_id) FROM "
                           "preview_numbers");
    while (rows.executeStep()) {
        auto& number = state.preview_numbers.emplace_back();
        read_columns(rows, number, 0);
        if (!rows.isColumnNull(4))
            number.user_id = rows.getColumn(4).getString();
    }
    find_resting_previews(state);
}

void Reader::find_resting_previews(StartState& state) {
    // 0, 1 and 2 are starting, active and paused. The reason stays until a conversation is resumed: when the
    // end of a server paused it is told by its log, of which that is the last event, or one of the last.
    SQLite::Statement resting(
        database_,
        "SELECT number, status < 2, last_active_at, CASE WHEN status = 2 AND reason = " +
            std::to_string(static_cast<int>(conversation::PauseReason::server_restart)) +
            " THEN (SELECT json FROM events WHERE events.id >= c.key << " + std::to_string(k_seq_bits) +
            " AND events.id < (c.key + 1) << " + std::to_string(k_seq_bits) +
            " ORDER BY events.id DESC LIMIT 1) END FROM preview_numbers p CROSS JOIN sandboxes s ON "
            "s.id = p.sandbox_id CROSS JOIN conversations c ON c.id = s.conversation_id WHERE s.gone = 0 AND "
            "status <= 2");
    auto& found = state.resting_previews;
    while (resting.executeStep()) {
        const base::WallTime active = wall(resting.getColumn(2).getInt64());
        const auto paused = conversation::event_time(resting.getColumn(3).getString());
        found.push_back({static_cast<std::uint16_t>(resting.getColumn(0).getInt()),
                         resting.getColumn(1).getInt() != 0, std::max(active, paused.value_or(active))});
    }
    std::ranges::stable_sort(found, std::greater(),
                             [](const auto& each) { return std::pair(each.was_up, each.since); });
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
