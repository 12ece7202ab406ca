#include "core/store/rows.hpp"

#include <sqlite3.h>
#include <SQLiteCpp/Exception.h>

#include <algorithm>
#include <string>

#include "core/store/env_text.hpp"
#include "core/store/ports_text.hpp"
#include "core/store/row_ids.hpp"

namespace atl::store {

using conversation::Record;
using conversation::Status;

namespace {

/// The enum in a column, whose values are 0 to `last`. Code that looks for one value would treat any other
/// number as the rest of them.
template <class Enum>
Enum enum_at(SQLite::Statement& row, int column, Enum last, const std::string& table) {
    const std::int64_t value = row.getColumn(column).getInt64();
    if (value >= 0 && value <= static_cast<std::int64_t>(last))
        return static_cast<Enum>(value);
    throw SQLite::Exception("the row with the key " + std::to_string(row.getColumn(0).getInt64()) + " in " +
                                table + " has a " + row.getColumnName(column) + " of " +
                                std::to_string(value) + ", which is none that this server writes",
                            SQLITE_MISMATCH);
}

}  // namespace

std::uint64_t unsigned_at(SQLite::Statement& row, int column) {
    return static_cast<std::uint64_t>(row.getColumn(column).getInt64());
}

std::uint64_t extreme(SQLite::Statement& query, std::int64_t key) {
    Rows rows(query);
    rows->bind(1, row_id(key, 0));
    rows->bind(2, row_id(key + 1, 0));
    rows.next();
    return rows->getColumn(0).isNull() ? 0 : low_of(rows->getColumn(0).getInt64());
}

LogEnds::LogEnds(SQLite::Database& database)
    : first_(database, "SELECT min(id) FROM events WHERE id >= ? AND id < ?"),
      last_(database, "SELECT max(id) FROM events WHERE id >= ? AND id < ?") {}

void LogEnds::set(Record& record) {
    record.first_seq = std::max(record.first_seq, extreme(first_, record.key));
    record.last_seq = std::max(extreme(last_, record.key), record.first_seq - 1);
}

Record conversation_at(SQLite::Statement& row) {
    Record record;
    record.key = row.getColumn(0).getInt64();
    record.id = row.getColumn(1).getString();
    record.agent = row.getColumn(2).getString();
    if (!row.getColumn(3).isNull())
        record.user_id = row.getColumn(3).getString();
    record.metadata = row.getColumn(4).getString();
    record.sandbox_id = row.getColumn(5).getString();
    record.status = enum_at(row, 6, conversation::k_all_statuses.back(), "conversations");
    record.reason = enum_at(row, 7, conversation::PauseReason::server_restart, "conversations");
    record.idle_seconds = row.getColumn(8).getUInt();
    record.ttl_seconds = row.getColumn(9).getUInt();
    record.created_at = wall(row.getColumn(10).getInt64());
    record.last_active_at = wall(row.getColumn(11).getInt64());
    record.first_seq = unsigned_at(row, 12);
    record.title = row.getColumn(13).getString();
    record.tools.read_before_edit = row.getColumn(16).getInt() != 0;
    return record;
}

// Column 0 is the key.
sandbox::Record sandbox_at(SQLite::Statement& row, Environment environment) {
    sandbox::Record record;
    record.id = row.getColumn(1).getString();
    record.conversation_id = row.getColumn(2).getString();
    record.generation = row.getColumn(3).getUInt();
    record.network = enum_at(row, 4, sandbox::NetworkMode::host, "sandboxes");
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
    if (!row.getColumn(16).isNull())
        record.user_id = row.getColumn(16).getString();
    record.preview.access = enum_at(row, 17, sandbox::PreviewAccess::token_bearers, "sandboxes");
    if (!row.getColumn(18).isNull())
        record.preview.wake = row.getColumn(18).getInt() != 0;
    record.preview.ports = ports_in(row.getColumn(19).getString());
    record.limits.tmp_mb = row.getColumn(20).getUInt();
    return record;
}

}  // namespace atl::store
