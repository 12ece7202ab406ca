#include "core/store/rows.hpp"

#include <algorithm>

#include "core/store/row_ids.hpp"

namespace atl::store {

using conversation::Record;

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

}  // namespace atl::store
