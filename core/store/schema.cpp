#include "core/store/schema.hpp"

#include <SQLiteCpp/Transaction.h>

#include <array>

#include "core/base/limits.hpp"
#include "core/conversation/types.hpp"
#include "core/plain/preview_limits.hpp"

namespace atl::store {
namespace {

constexpr const char* k_version_1 = R"sql(
CREATE TABLE conversations (
    key            INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    agent          TEXT NOT NULL,
    user_id        TEXT,
    metadata       TEXT NOT NULL,
    sandbox_id     TEXT NOT NULL,
    status         INTEGER NOT NULL,
    reason         INTEGER NOT NULL,
    idle_seconds   INTEGER NOT NULL,
    ttl_seconds    INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,  -- milliseconds since 1970
    last_active_at INTEGER NOT NULL,
    first_seq      INTEGER NOT NULL
) STRICT;

CREATE TABLE sandboxes (
    id              TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL,
    host_uid        INTEGER NOT NULL,
    generation      INTEGER NOT NULL,
    network         INTEGER NOT NULL,
    memory_mb       INTEGER NOT NULL,
    cpu_percent     INTEGER NOT NULL,
    disk_mb         INTEGER NOT NULL,
    max_processes   INTEGER NOT NULL,
    env             TEXT NOT NULL,  -- JSON array of [name, value]
    metadata        TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    ttl_seconds     INTEGER NOT NULL,
    gone            INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    id              INTEGER PRIMARY KEY,  -- conversation key << 36 | turn
    idempotency_key TEXT,
    content_digest  TEXT NOT NULL,
    first_seq       INTEGER NOT NULL,
    last_seq        INTEGER NOT NULL,  -- 0: open
    bytes           INTEGER NOT NULL
) STRICT;
CREATE INDEX turns_by_idempotency_key ON turns (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE events (
    id   INTEGER PRIMARY KEY,  -- conversation key << 36 | seq
    type INTEGER NOT NULL,
    turn INTEGER NOT NULL,     -- 0: none
    json TEXT NOT NULL
) STRICT;
)sql";

// New rows in the order in which they come, and nothing else in the order of their random ids: such an insert
// changes any page of the table, and with few rows a page it often splits one between its neighbours.
constexpr const char* k_version_2 = R"sql(
CREATE TABLE new_conversations (
    key            INTEGER PRIMARY KEY,
    id             TEXT NOT NULL,
    agent          TEXT NOT NULL,
    user_id        TEXT,
    metadata       TEXT NOT NULL,
    sandbox_id     TEXT NOT NULL,
    status         INTEGER NOT NULL,
    reason         INTEGER NOT NULL,
    idle_seconds   INTEGER NOT NULL,
    ttl_seconds    INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,  -- milliseconds since 1970
    last_active_at INTEGER NOT NULL,
    first_seq      INTEGER NOT NULL
) STRICT;
INSERT INTO new_conversations SELECT * FROM conversations;
DROP TABLE conversations;
ALTER TABLE new_conversations RENAME TO conversations;

CREATE TABLE new_sandboxes (
    key             INTEGER PRIMARY KEY,  -- the database's own
    id              TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    host_uid        INTEGER NOT NULL,
    generation      INTEGER NOT NULL,
    network         INTEGER NOT NULL,
    memory_mb       INTEGER NOT NULL,
    cpu_percent     INTEGER NOT NULL,
    disk_mb         INTEGER NOT NULL,
    max_processes   INTEGER NOT NULL,
    env             TEXT NOT NULL,  -- JSON array of [name, value]
    metadata        TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    ttl_seconds     INTEGER NOT NULL,
    gone            INTEGER NOT NULL
) STRICT;
INSERT INTO new_sandboxes SELECT NULL, * FROM sandboxes;
DROP TABLE sandboxes;
ALTER TABLE new_sandboxes RENAME TO sandboxes;
)sql";

// Sandboxes from before these limits get the defaults that came with them.
constexpr const char* k_version_3 = R"sql(
ALTER TABLE sandboxes ADD COLUMN max_sockets INTEGER NOT NULL DEFAULT 2048;
ALTER TABLE sandboxes ADD COLUMN max_open_files INTEGER NOT NULL DEFAULT 4096;
)sql";

constexpr const char* k_version_4 = R"sql(
CREATE UNIQUE INDEX conversations_by_id ON conversations (id);
CREATE UNIQUE INDEX sandboxes_by_id ON sandboxes (id);
)sql";

// Lists of one user; what ends first; the turns that a start has to close. A conversation without a user and
// without a time to live is in neither. 3 is Status::ended.
// Facts of the host are in the node's store: those of earlier versions are made anew from the workspaces.
constexpr const char* k_version_5 = R"sql(
ALTER TABLE sandboxes DROP COLUMN host_uid;
CREATE INDEX conversations_by_user ON conversations (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX conversations_by_end ON conversations (created_at + 1000 * ttl_seconds)
    WHERE ttl_seconds > 0 AND status <> 3;
CREATE INDEX ended_conversations ON conversations (created_at + 1000 * ttl_seconds) WHERE status = 3;
CREATE INDEX open_turns ON turns (id) WHERE last_seq = 0;
)sql";
static_assert(static_cast<int>(conversation::Status::ended) == 3);

constexpr const char* k_version_6 = R"sql(
ALTER TABLE conversations ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN create_key TEXT;     -- the sender's scope and its Idempotency-Key
ALTER TABLE conversations ADD COLUMN create_digest TEXT;  -- of what that request asked for
ALTER TABLE sandboxes ADD COLUMN user_id TEXT;  -- of one without a conversation
CREATE UNIQUE INDEX conversations_by_create_key ON conversations (create_key) WHERE create_key IS NOT NULL;
)sql";

// What lists find by. Each index is in the order of a list, by creation and then by key, except that of the
// last activity: its hour changes seldom, so a message leaves it alone. Members of metadata have rows of
// their own, which triggers keep: limits.hpp says which. A log's events below a seq belong to nobody any
// more: a start finds such logs in `purges`, where they stay until the last of those events is gone. 1000 *
// ttl_seconds and 3 are as above; 64 and 256 are k_max_indexed_members and k_max_indexed_bytes.
constexpr const char* k_version_7 = R"sql(
DROP INDEX conversations_by_user;
CREATE INDEX conversations_by_user ON conversations (user_id, created_at) WHERE user_id IS NOT NULL;
CREATE INDEX open_conversations_by_user ON conversations (user_id) WHERE user_id IS NOT NULL AND status <> 3;
CREATE INDEX conversations_by_agent ON conversations (agent, created_at);
CREATE INDEX conversations_by_status ON conversations (status, created_at);
CREATE INDEX conversations_by_creation ON conversations (created_at);
CREATE INDEX conversations_by_active_hour ON conversations (last_active_at / 3600000, created_at);
CREATE INDEX sandboxes_by_user ON sandboxes (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX present_sandboxes ON sandboxes (key) WHERE gone = 0;
CREATE INDEX standalone_sandboxes ON sandboxes (key) WHERE conversation_id = '' AND gone = 0;

CREATE TABLE metadata_members (
    name       TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    key        INTEGER NOT NULL,
    PRIMARY KEY (name, value, created_at, key)
) STRICT, WITHOUT ROWID;
UPDATE conversations SET metadata = '{}'
    WHERE NOT json_valid(metadata) OR json_type(metadata) <> 'object';
INSERT INTO metadata_members
    SELECT name, value, created_at, key FROM (
        SELECT m.key AS name, CASE WHEN m.type IN ('true', 'false') THEN m.type ELSE CAST(m.value AS TEXT) END AS value,
               c.created_at AS created_at, c.key AS key, row_number() OVER (PARTITION BY c.key ORDER BY m.id) AS place
        FROM conversations AS c, json_each(c.metadata) AS m
        WHERE (m.type IN ('text', 'true', 'false') OR typeof(m.value) = 'integer')
              AND length(CAST(m.key AS BLOB)) <= 256 AND length(CAST(m.value AS BLOB)) <= 256
              AND instr(c.metadata, '\u0000') = 0)
    WHERE place <= 64 ON CONFLICT DO NOTHING;
CREATE TRIGGER metadata_added AFTER INSERT ON conversations WHEN new.metadata <> '{}' BEGIN
    INSERT INTO metadata_members
        SELECT m.key, CASE WHEN m.type IN ('true', 'false') THEN m.type ELSE CAST(m.value AS TEXT) END,
               new.created_at, new.key
        FROM json_each(new.metadata) AS m
        WHERE (m.type IN ('text', 'true', 'false') OR typeof(m.value) = 'integer')
              AND length(CAST(m.key AS BLOB)) <= 256 AND length(CAST(m.value AS BLOB)) <= 256
              AND instr(new.metadata, '\u0000') = 0
        LIMIT 64 ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER metadata_changed AFTER UPDATE OF metadata ON conversations WHEN new.metadata <> old.metadata BEGIN
    DELETE FROM metadata_members WHERE created_at = old.created_at AND key = old.key AND (name, value) IN
        (SELECT m.key, CASE WHEN m.type IN ('true', 'false') THEN m.type ELSE CAST(m.value AS TEXT) END
         FROM json_each(old.metadata) AS m);
    INSERT INTO metadata_members
        SELECT m.key, CASE WHEN m.type IN ('true', 'false') THEN m.type ELSE CAST(m.value AS TEXT) END,
               new.created_at, new.key
        FROM json_each(new.metadata) AS m
        WHERE (m.type IN ('text', 'true', 'false') OR typeof(m.value) = 'integer')
              AND length(CAST(m.key AS BLOB)) <= 256 AND length(CAST(m.value AS BLOB)) <= 256
              AND instr(new.metadata, '\u0000') = 0
        LIMIT 64 ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER metadata_removed AFTER DELETE ON conversations WHEN old.metadata <> '{}' BEGIN
    DELETE FROM metadata_members WHERE created_at = old.created_at AND key = old.key AND (name, value) IN
        (SELECT m.key, CASE WHEN m.type IN ('true', 'false') THEN m.type ELSE CAST(m.value AS TEXT) END
         FROM json_each(old.metadata) AS m);
END;

CREATE TABLE purges (
    key       INTEGER PRIMARY KEY,
    below_seq INTEGER NOT NULL
) STRICT;
CREATE TRIGGER log_begins_later AFTER UPDATE OF first_seq ON conversations WHEN new.first_seq > old.first_seq BEGIN
    INSERT INTO purges VALUES (new.key, new.first_seq)
        ON CONFLICT (key) DO UPDATE SET below_seq = excluded.below_seq;
END;
CREATE TRIGGER log_left AFTER DELETE ON conversations BEGIN
    INSERT INTO purges VALUES (old.key, 1 << 36)
        ON CONFLICT (key) DO UPDATE SET below_seq = excluded.below_seq;
END;
INSERT INTO purges SELECT key, first_seq FROM conversations WHERE first_seq > 1;
INSERT INTO purges
    WITH RECURSIVE logs (key) AS (
        SELECT min(id) >> 36 FROM events
        UNION ALL
        SELECT (SELECT min(id) >> 36 FROM events WHERE id >= (logs.key + 1) << 36) FROM logs
            WHERE logs.key IS NOT NULL)
    SELECT key, 1 << 36 FROM logs WHERE key IS NOT NULL AND key NOT IN (SELECT key FROM conversations);
)sql";
static_assert(k_seq_bits == 36 && base::k_max_indexed_members == 64 && base::k_max_indexed_bytes == 256);

constexpr const char* k_version_8 = R"sql(
ALTER TABLE conversations ADD COLUMN read_before_edit INTEGER NOT NULL DEFAULT 0;
CREATE TABLE kept_processes (
    id   INTEGER PRIMARY KEY,  -- conversation key << 36 | number
    spec TEXT NOT NULL         -- JSON object
) STRICT;
)sql";

// 5173 is k_default_preview_port.
constexpr const char* k_version_9 = R"sql(
ALTER TABLE sandboxes ADD COLUMN preview_access INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN preview_wake INTEGER;  -- null: not said
ALTER TABLE sandboxes ADD COLUMN preview_ports TEXT NOT NULL DEFAULT '5173';  -- with commas
)sql";
static_assert(base::k_default_preview_port == 5173);

// Ports of previews that a sandbox has or had.
constexpr const char* k_version_10 = R"sql(
CREATE TABLE preview_numbers (
    number     INTEGER PRIMARY KEY,
    sandbox_id TEXT NOT NULL,     -- empty: free again
    freed      INTEGER NOT NULL,  -- of a free one: counts up
    stale      INTEGER NOT NULL   -- 1: browsers may keep what another sandbox stored
) STRICT;
)sql";

// 256 is what every sandbox had before.
constexpr const char* k_version_11 = R"sql(
ALTER TABLE sandboxes ADD COLUMN tmp_mb INTEGER NOT NULL DEFAULT 256;
)sql";

// One row at the most (log_epoch.hpp).
constexpr const char* k_version_12 = R"sql(
CREATE TABLE log_epoch (
    epoch TEXT NOT NULL,
    count INTEGER NOT NULL,
    boot  TEXT NOT NULL
) STRICT;
)sql";

// Each says its tables in full, or the columns that it adds: a step is never changed once there are databases
// of it.
constexpr std::array<const char*, k_schema_version> k_steps = {
    k_version_1, k_version_2, k_version_3, k_version_4,  k_version_5,  k_version_6,
    k_version_7, k_version_8, k_version_9, k_version_10, k_version_11, k_version_12};

}  // namespace

base::Result<void> migrate(SQLite::Database& database) {
    const int found = database.execAndGet("PRAGMA user_version").getInt();
    if (found > k_schema_version)
        return base::Error(base::Errc::storage_failed,
                           "the database was written by a newer server (schema " + std::to_string(found) +
                               ", this one knows " + std::to_string(k_schema_version) + "); start that one");
    for (int version = found; version < k_schema_version; ++version) {
        SQLite::Transaction step(database);
        database.exec(k_steps.at(static_cast<std::size_t>(version)));
        database.exec("PRAGMA user_version = " + std::to_string(version + 1));
        step.commit();
    }
    return {};
}

}  // namespace atl::store
