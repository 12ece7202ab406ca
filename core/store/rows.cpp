#include "core/store/rows.hpp"

#include <algorithm>

#include "core/store/env_text.hpp"
#include "core/store/ports_text.hpp"
#include "core/store/row_ids.hpp"

namespace atl::store {

using conversation::Record;
using conversation::Status;

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
    record.status = static_cast<Status>(row.getColumn(6).getInt());
    record.reason = static_cast<conversation::PauseReason>(row.getColumn(7).getInt());
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
    if (!row.getColumn(16).isNull())
        record.user_id = row.getColumn(16).getString();
    record.preview.access = static_cast<sandbox::PreviewAccess>(row.getColumn(17).getInt());
    if (!row.getColumn(18).isNull())
        record.preview.wake = row.getColumn(18).getInt() != 0;
    record.preview.ports = ports_in(row.getColumn(19).getString());
    record.limits.tmp_mb = row.getColumn(20).getUInt();
    return record;
}

}  // namespace atl::store
