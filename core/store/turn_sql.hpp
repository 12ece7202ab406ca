// The statements that go through many turns or events of one conversation. Each walks ranges of its keys; a
// test asks SQLite whether it does. Internal to core/store.
#pragma once

namespace atl::store {

// Between the ends of the key's range of turns.
inline constexpr char k_turn_sums_sql[] =
    "SELECT max(id), count(*), sum(bytes) FROM turns WHERE id >= ? AND id < ?";
inline constexpr char k_turns_sql[] =
    "SELECT id, first_seq, last_seq, bytes, idempotency_key, content_digest FROM turns "
    "WHERE id >= ? AND id < ? ORDER BY id";
// Turns end in their order: what comes behind the first one that stays is not looked at.
inline constexpr char k_forget_turns_sql[] =
    "DELETE FROM turns WHERE id >= ?1 AND last_seq > 0 AND id < ifnull((SELECT id FROM turns WHERE id >= ?1 "
    "AND id < ?2 AND last_seq > ?3 ORDER BY id LIMIT 1), ?2)";
// Between two ids of events; ?3 is a turn, ?4 EventType::done.
inline constexpr char k_unrecorded_sql[] =
    "SELECT turn, min(id), max(id), max(type = ?4), sum(length(CAST(json AS BLOB))) "
    "FROM events WHERE id > ?1 AND id < ?2 AND turn > ?3 GROUP BY turn ORDER BY turn";
inline constexpr char k_open_bytes_sql[] =
    "SELECT sum(length(CAST(json AS BLOB))) FROM events WHERE id > ? AND id < ?";

}  // namespace atl::store
