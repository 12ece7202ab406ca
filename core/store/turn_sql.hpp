// The statements that go through many turns or events of one conversation. Each walks ranges of its keys; a
// test asks SQLite whether it does. Internal to core/store.
#pragma once

namespace atl::store {

// Between the ends of the key's range of turns. Those that ended before the log's first seq, ?3, are still to
// be removed.
inline constexpr char k_last_turn_sql[] = "SELECT max(id) FROM turns WHERE id >= ? AND id < ?";
inline constexpr char k_turn_sums_sql[] =
    "SELECT count(*), sum(bytes) FROM turns "
    "WHERE id >= ?1 AND id < ?2 AND (last_seq = 0 OR last_seq >= ?3)";
inline constexpr char k_turns_sql[] =
    "SELECT id, CASE WHEN last_seq = 0 THEN idempotency_key END, CASE WHEN last_seq = 0 THEN content_digest "
    "END, first_seq, last_seq, bytes FROM turns "
    "WHERE id >= ?1 AND id < ?2 AND (last_seq = 0 OR last_seq >= ?3) ORDER BY id";
// ?3 is how many at the most. Of a cut log the last one stays, and those that ended at ?4 or later. Turns end
// in their order, so no more than ?3 are looked at.
inline constexpr char k_remove_turns_sql[] =
    "DELETE FROM turns WHERE id IN (SELECT id FROM turns WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3)";
inline constexpr char k_remove_cut_turns_sql[] =
    "DELETE FROM turns WHERE id IN (SELECT id FROM turns WHERE id >= ?1 AND id < (SELECT id FROM turns "
    "WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT 1) ORDER BY id LIMIT ?3) "
    "AND last_seq > 0 AND last_seq < ?4";
// Between two ids of events.
inline constexpr char k_purged_events_sql[] =
    "SELECT id, length(CAST(json AS BLOB)) FROM events WHERE id >= ? AND id < ? ORDER BY id";
inline constexpr char k_remove_events_sql[] = "DELETE FROM events WHERE id >= ? AND id < ?";
// Between two ids of events; ?3 is a turn, ?4 EventType::done, ?5 k_max_seq.
inline constexpr char k_unrecorded_sql[] =
    "SELECT turn, min(id) & ?5, max(id) & ?5, sum(length(CAST(json AS BLOB))), max(type = ?4) "
    "FROM events WHERE id > ?1 AND id < ?2 AND turn > ?3 GROUP BY turn ORDER BY turn";
inline constexpr char k_open_bytes_sql[] =
    "SELECT sum(length(CAST(json AS BLOB))) FROM events WHERE id > ? AND id < ?";
// Between two ids of events; ?3 and ?4 are the first and the last type.
inline constexpr char k_questions_sql[] =
    "SELECT type, json FROM events WHERE id >= ?1 AND id < ?2 AND type BETWEEN ?3 AND ?4 ORDER BY id";

// How large the log of each conversation is; 36 is k_seq_bits. Its turns tell what was logged since its
// record was written, the record what was logged without turns.
inline constexpr char k_log_sizes_sql[] =
    "WITH logs AS (SELECT key, id, user_id, CASE WHEN status <> 3 THEN ifnull(sandbox_id, '') ELSE '' END "
    "AS sandbox_id, 2 * max(length(CAST(metadata AS BLOB)) - 2, 0) AS record_bytes, ifnull('user ' || "
    "user_id, id) AS holder, "
    "max(ifnull(json_extract(rest, '$.logBytes'), 0), ifnull((SELECT "
    "sum(bytes) FROM turns WHERE turns.id >= key << 36 AND turns.id < (key + 1) << 36 AND "
    "last_seq >= conversations.first_seq), 0)) AS bytes FROM conversations) ";
inline constexpr char k_logs_of_range_sql[] =
    "SELECT key, user_id, bytes + record_bytes, sandbox_id FROM logs WHERE key > ? AND key <= ? ORDER BY key "
    "LIMIT ?";
inline constexpr char k_largest_logs_sql[] =
    "SELECT id FROM logs WHERE bytes > 0 AND holder = (SELECT holder FROM logs GROUP BY holder "
    "ORDER BY sum(bytes) DESC LIMIT 1) ORDER BY bytes DESC LIMIT ?";

}  // namespace atl::store
