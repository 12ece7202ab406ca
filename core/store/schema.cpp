#include "core/store/schema.hpp"

#include <SQLiteCpp/Transaction.h>

#include <string>

#include "core/base/limits.hpp"
#include "core/conversation/types.hpp"
#include "core/plain/preview_limits.hpp"

namespace atl::store {
namespace {

// Columns are what SQL finds or sorts by, and what each change of the status writes; the JSON object `rest`
// has all else (record_fields.hpp). Empty text is NULL. Times are milliseconds since 1970.
//
// Indexes are in the order of a list, by creation and then by key. That of the last activity has its hour,
// which changes seldom, so a message leaves it alone.
//
// Members of metadata have rows of their own, which triggers keep: limits.hpp says which. Nobody reads the
// events of a log below its first seq: `purges` has such logs until the last of those events is gone.
//
// 3 is Status::ended, 36 k_seq_bits; 64 and 256 are k_max_indexed_members and k_max_indexed_bytes.
constexpr const char* k_tables = R"sql(
CREATE TABLE conversations (
    key            INTEGER PRIMARY KEY,
    id             TEXT NOT NULL,
    agent          TEXT,
    user_id        TEXT,
    metadata       TEXT NOT NULL,  -- JSON object
    sandbox_id     TEXT,
    status         INTEGER NOT NULL,
    reason         INTEGER NOT NULL,
    ttl_seconds    INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    last_active_at INTEGER NOT NULL,
    first_seq      INTEGER NOT NULL,
    create_key     TEXT,  -- the sender's scope and its Idempotency-Key
    create_digest  TEXT,  -- of what that request asked for
    rest           TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX conversations_by_id ON conversations (id);
CREATE UNIQUE INDEX conversations_by_create_key ON conversations (create_key) WHERE create_key IS NOT NULL;
CREATE INDEX conversations_by_end ON conversations (created_at + 1000 * ttl_seconds)
    WHERE ttl_seconds > 0 AND status <> 3;
CREATE INDEX conversations_by_user ON conversations (user_id, created_at) WHERE user_id IS NOT NULL;
CREATE INDEX open_conversations_by_user ON conversations (user_id) WHERE user_id IS NOT NULL AND status <> 3;
CREATE INDEX conversations_by_agent ON conversations (agent, created_at);
CREATE INDEX conversations_by_status ON conversations (status, created_at);
CREATE INDEX conversations_by_creation ON conversations (created_at);
CREATE INDEX conversations_by_active_hour ON conversations (last_active_at / 3600000, created_at);

CREATE TABLE sandboxes (
    key             INTEGER PRIMARY KEY,  -- the database's own
    id              TEXT NOT NULL,
    conversation_id TEXT,
    user_id         TEXT,  -- of one without a conversation
    gone            INTEGER NOT NULL,
    env             TEXT,  -- JSON array of [name, value]
    rest            TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX sandboxes_by_id ON sandboxes (id);
CREATE INDEX sandboxes_by_user ON sandboxes (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX present_sandboxes ON sandboxes (key) WHERE gone = 0;
CREATE INDEX standalone_sandboxes ON sandboxes (key) WHERE conversation_id IS NULL AND gone = 0;

CREATE TABLE kept_processes (
    id   INTEGER PRIMARY KEY,  -- conversation key << 36 | number
    rest TEXT NOT NULL
) STRICT;

CREATE TABLE turns (
    id              INTEGER PRIMARY KEY,  -- conversation key << 36 | turn
    idempotency_key TEXT,
    content_digest  TEXT,
    first_seq       INTEGER NOT NULL,
    last_seq        INTEGER NOT NULL,  -- 0: open
    bytes           INTEGER NOT NULL
) STRICT;
CREATE INDEX turns_by_idempotency_key ON turns (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX open_turns ON turns (id) WHERE last_seq = 0;

CREATE TABLE events (
    id   INTEGER PRIMARY KEY,  -- conversation key << 36 | seq
    type INTEGER NOT NULL,
    turn INTEGER NOT NULL,     -- 0: none
    json TEXT NOT NULL
) STRICT;

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

-- Ports of previews that a sandbox has or had.
CREATE TABLE preview_numbers (
    number     INTEGER PRIMARY KEY,
    sandbox_id TEXT,              -- NULL: free again
    freed      INTEGER NOT NULL,  -- of a free one: counts up
    stale      INTEGER NOT NULL   -- 1: browsers may keep what another sandbox stored
) STRICT;

-- One row at the most (log_epoch.hpp).
CREATE TABLE log_epoch (
    epoch TEXT NOT NULL,
    count INTEGER NOT NULL,
    boot  TEXT NOT NULL
) STRICT;

CREATE TABLE metadata_members (
    name       TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    key        INTEGER NOT NULL,
    PRIMARY KEY (name, value, created_at, key)
) STRICT, WITHOUT ROWID;
)sql";

// Made where they are missing, so that they need no version of their own. The two indexes have all that a
// start looks for among sandboxes and ended conversations: it reads none of their rows.
constexpr const char* k_additions = R"sql(
CREATE INDEX IF NOT EXISTS ended_by_age ON conversations (created_at + 1000 * ttl_seconds, id) WHERE status = 3;
CREATE INDEX IF NOT EXISTS present_by_conversation ON sandboxes (conversation_id)
    WHERE gone = 0 AND conversation_id IS NOT NULL;
CREATE TABLE IF NOT EXISTS secrets (
    user_id    TEXT NOT NULL,     -- empty: the operator's
    name       TEXT NOT NULL,
    hosts      TEXT NOT NULL,     -- with a blank between two
    updated_at INTEGER NOT NULL,
    sealed     BLOB NOT NULL,     -- core/secrets/sealer.hpp
    PRIMARY KEY (user_id, name)
) STRICT;
)sql";
static_assert(static_cast<int>(conversation::Status::ended) == 3 && k_seq_bits == 36 &&
              base::k_max_indexed_members == 64 && base::k_max_indexed_bytes == 256);

constexpr const char* k_add_members = R"sql(
    INSERT INTO metadata_members
        SELECT m.key, CASE WHEN m.type IN ('true', 'false') THEN m.type ELSE CAST(m.value AS TEXT) END,
               new.created_at, new.key
        FROM json_each(new.metadata) AS m
        WHERE (m.type IN ('text', 'true', 'false') OR typeof(m.value) = 'integer')
              AND length(CAST(m.key AS BLOB)) <= 256 AND length(CAST(m.value AS BLOB)) <= 256
              AND instr(new.metadata, '\u0000') = 0
        LIMIT 64 ON CONFLICT DO NOTHING;
)sql";
constexpr const char* k_remove_members = R"sql(
    DELETE FROM metadata_members WHERE created_at = old.created_at AND key = old.key AND (name, value) IN
        (SELECT m.key, CASE WHEN m.type IN ('true', 'false') THEN m.type ELSE CAST(m.value AS TEXT) END
         FROM json_each(old.metadata) AS m);
)sql";

std::string trigger(const char* name, const char* when, const std::string& does) {
    return std::string("CREATE TRIGGER ") + name + " AFTER " + when + " BEGIN " + does + "END;";
}

}  // namespace

base::Result<void> prepare_schema(SQLite::Database& database) {
    const int found = database.execAndGet("PRAGMA user_version").getInt();
    if (found == k_schema_version) {
        database.exec(k_additions);
        return {};
    }
    const std::string versions =
        "schema " + std::to_string(found) + ", this one knows " + std::to_string(k_schema_version);
    if (found > k_schema_version)
        return base::Error(base::Errc::storage_failed,
                           "the database was written by a newer server (" + versions + "); start that one");
    if (found != 0)
        return base::Error(base::Errc::storage_failed,
                           "the database was written by an older server (" + versions +
                               "); start that one, or move the files atoll.db* away and start with "
                               "--adopt-orphans (docs/operations/backup.md)");
    SQLite::Transaction change(database);
    database.exec(k_tables);
    database.exec(k_additions);
    database.exec(
        trigger("metadata_added", "INSERT ON conversations WHEN new.metadata <> '{}'", k_add_members));
    database.exec(trigger("metadata_changed",
                          "UPDATE OF metadata ON conversations WHEN new.metadata <> old.metadata",
                          std::string(k_remove_members) + k_add_members));
    database.exec(
        trigger("metadata_removed", "DELETE ON conversations WHEN old.metadata <> '{}'", k_remove_members));
    database.exec("PRAGMA user_version = " + std::to_string(k_schema_version));
    change.commit();
    return {};
}

}  // namespace atl::store
