#include "core/store/log_purge.hpp"

#include <algorithm>

#include "core/store/row_ids.hpp"
#include "core/store/rows.hpp"
#include "core/store/turn_sql.hpp"

namespace atl::store {

using conversation::PurgeBound;
using conversation::Purged;

namespace {

bool is_whole_log(std::uint64_t below_seq) {
    return below_seq >> k_seq_bits != 0;
}

}  // namespace

LogPurge::LogPurge(SQLite::Database& database)
    : events_(database, k_purged_events_sql),
      remove_events_(database, k_remove_events_sql),
      remove_turns_(database, k_remove_turns_sql),
      remove_cut_turns_(database, k_remove_cut_turns_sql),
      purged_(database, "DELETE FROM purges WHERE key = ? AND below_seq <= ?") {}

Purged LogPurge::remove(std::int64_t key, std::uint64_t below_seq, PurgeBound bound) {
    const std::int64_t end = is_whole_log(below_seq) ? row_id(key + 1, 0) : row_id(key, below_seq);
    Purged purged = remove_events(row_id(key, 0), end, bound);
    if (!purged.is_done)
        return purged;
    const std::size_t most = bound.rows - purged.rows;
    const std::size_t turns = remove_turns(key, below_seq, most);
    purged.rows += turns;
    purged.is_done = turns < most;
    if (purged.is_done) {
        Rows rows(purged_);
        rows->bind(1, key);
        rows->bind(2, static_cast<std::int64_t>(std::min(below_seq, std::uint64_t{1} << k_seq_bits)));
        rows->exec();
    }
    return purged;
}

/// Not done when the bound is used up, even if nothing happens to be left.
Purged LogPurge::remove_events(std::int64_t begin, std::int64_t end, PurgeBound bound) {
    Purged purged;
    std::int64_t last = begin - 1;
    {
        // The length of a text takes a read of all its pages; the removal finds them in SQLite's cache.
        Rows events(events_);
        events->bind(1, begin);
        events->bind(2, end);
        for (std::size_t bytes = 0; purged.rows < bound.rows && bytes < bound.bytes; ++purged.rows) {
            if (!events.next()) {
                purged.is_done = true;
                break;
            }
            last = events->getColumn(0).getInt64();
            bytes += unsigned_at(events_, 1);
        }
    }
    if (purged.rows > 0) {
        Rows rows(remove_events_);
        rows->bind(1, begin);
        rows->bind(2, last + 1);
        rows->exec();
    }
    return purged;
}

std::size_t LogPurge::remove_turns(std::int64_t key, std::uint64_t below_seq, std::size_t most) {
    SQLite::Statement& statement = is_whole_log(below_seq) ? remove_turns_ : remove_cut_turns_;
    Rows rows(statement);
    rows->bind(1, row_id(key, 0));
    rows->bind(2, row_id(key + 1, 0));
    rows->bind(3, static_cast<std::int64_t>(most));
    if (!is_whole_log(below_seq))
        rows->bind(4, static_cast<std::int64_t>(below_seq));
    return static_cast<std::size_t>(rows->exec());
}

}  // namespace atl::store
