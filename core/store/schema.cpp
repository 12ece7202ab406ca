#include "core/store/schema.hpp"

#include <SQLiteCpp/Transaction.h>

#include <array>

#include "core/conversation/types.hpp"

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

// Each says its tables in full, or the columns that it adds: a step is never changed once there are databases
// of it.
constexpr std::array<const char*, k_schema_version> k_steps = {k_version_1, k_version_2, k_version_3,
                                                               k_version_4, k_version_5};

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
