#include <SQLiteCpp/Database.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "core/store/schema.hpp"
#include "core/store/sqlite_store.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace schema_test {

using namespace atl;
using namespace atl::conversation;
using store::SqliteStore;

namespace {

// As the first version's server left it.
constexpr const char* k_first_version = R"sql(
CREATE TABLE conversations (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, user_id TEXT,
    metadata TEXT NOT NULL, sandbox_id TEXT NOT NULL, status INTEGER NOT NULL, reason INTEGER NOT NULL,
    idle_seconds INTEGER NOT NULL, ttl_seconds INTEGER NOT NULL, created_at INTEGER NOT NULL,
    last_active_at INTEGER NOT NULL, first_seq INTEGER NOT NULL) STRICT;
CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY, conversation_id TEXT NOT NULL, host_uid INTEGER NOT NULL,
    generation INTEGER NOT NULL, network INTEGER NOT NULL, memory_mb INTEGER NOT NULL,
    cpu_percent INTEGER NOT NULL, disk_mb INTEGER NOT NULL, max_processes INTEGER NOT NULL,
    env TEXT NOT NULL, metadata TEXT NOT NULL, created_at INTEGER NOT NULL, ttl_seconds INTEGER NOT NULL,
    gone INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE turns (
    id INTEGER PRIMARY KEY, idempotency_key TEXT, content_digest TEXT NOT NULL, first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
CREATE INDEX turns_by_idempotency_key ON turns (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, type INTEGER NOT NULL, turn INTEGER NOT NULL, json TEXT NOT NULL) STRICT;
PRAGMA user_version = 1;
INSERT INTO conversations VALUES (7,'c7','shell','eve','{"a":1}','younger',1,0,5,60,1000,2000,1);
INSERT INTO sandboxes VALUES
    ('a-younger','c7',70001,2,0,512,100,1024,256,'[["A","b"]]','{}',3000,60,0),
    ('z-older','',70002,1,0,64,50,128,32,'[]','{"x":2}',1500,0,1);
INSERT INTO turns VALUES (7<<36|1,'k','digest',1,2,30);
INSERT INTO events VALUES (7<<36|1,1,1,'{"seq":1}'),(7<<36|2,2,1,'{"seq":2}');
)sql";

std::unique_ptr<SqliteStore> open(const std::filesystem::path& file) {
    auto opened = SqliteStore::open(file);
    REQUIRE(opened);
    return std::move(*opened);
}

sandbox::Record box(const std::string& id) {
    sandbox::Record record;
    record.id = id;
    return record;
}

std::vector<std::string> box_ids(SqliteStore& store) {
    const auto state = test::load_start(store);
    REQUIRE(state);
    std::vector<std::string> ids;
    for (const auto& record : state->standalone)
        ids.push_back(record.id);
    std::ranges::sort(ids);
    return ids;
}

EventPtr event(std::uint64_t seq) {
    return make_event(seq, EventType::text_delta, base::WallTime{}, 1, "{}");
}

}  // namespace

TEST_CASE("A database of the first version is brought to the present one with all that is in it") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(k_first_version);
    for (int start = 0; start < 2; ++start) {
        const auto store = open(file);
        const auto stored = test::load(*store, "c7");
        REQUIRE(stored);
        REQUIRE(stored->has_value());
        const auto& conversation = (*stored)->record;
        CHECK(conversation.key == 7);
        CHECK(conversation.id == "c7");
        CHECK(conversation.user_id == "eve");
        CHECK(conversation.last_active_at == base::WallTime{base::Millis{2000}});
        CHECK(conversation.last_seq == 2);
        CHECK(conversation.last_turn == 1);
        CHECK_FALSE(conversation.tools.read_before_edit);
        CHECK((*stored)->kept_processes.empty());
        const auto older = test::find_sandbox(*store, "z-older")->value();
        CHECK(older.gone);
        CHECK(older.metadata == R"({"x":2})");
        const auto younger = test::find_sandbox(*store, "a-younger")->value();
        CHECK(younger.id == "a-younger");
        CHECK(younger.conversation_id == "c7");
        CHECK(younger.generation == 2);
        CHECK(younger.limits.memory_mb == 512);
        CHECK(younger.limits.max_processes == 256);
        CHECK(younger.limits.max_sockets == 2048);
        CHECK(younger.limits.max_open_files == 4096);
        CHECK(younger.limits.tmp_mb == 256);
        CHECK(younger.env == sandbox::Environment{{"A", "b"}});
        CHECK(younger.created_at == base::WallTime{base::Millis{3000}});
        CHECK(younger.ttl_seconds == 60);
        CHECK_FALSE(younger.gone);
        CHECK(test::find_turn(*store, 7, "k")->last_seq == 2);
        CHECK(test::read_events(*store, 7, 0, 1000)->size() == 2);
    }
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    CHECK(database.execAndGet("PRAGMA user_version").getInt() == store::k_schema_version);
    // A fact of the host: the node's store has it.
    CHECK(database.execAndGet("SELECT count(*) FROM pragma_table_info('sandboxes') WHERE name = 'host_uid'")
              .getInt() == 0);
}

TEST_CASE("A first version larger than what SQLite keeps in memory is brought to the present one") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    {
        SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
        database.exec("PRAGMA page_size = 1024; PRAGMA journal_mode = WAL");
        database.exec(k_first_version);
        database.exec(
            "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 10099) "
            "INSERT INTO conversations SELECT i, hex(randomblob(16)), 'shell', NULL, hex(randomblob(400)), "
            "'box', 1, 0, 5, 60, 1000, 2000, 1 FROM n");
    }
    for (int start = 0; start < 2; ++start) {
        const auto state = test::load_start(*open(file));
        REQUIRE(state);
        CHECK(state->by_status[Status::active] == 10'001);
    }
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    CHECK(database.execAndGet("PRAGMA integrity_check").getString() == "ok");
}

TEST_CASE("A step that fails leaves the database as it was") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    {
        SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
        database.exec(k_first_version);
        database.exec("CREATE TABLE new_sandboxes (x)");
    }
    CHECK_FALSE(SqliteStore::open(file));
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    CHECK(database.execAndGet("PRAGMA user_version").getInt() == 1);
    CHECK(database.execAndGet("SELECT count(*) FROM conversations").getInt() == 1);
    database.exec("DROP TABLE new_sandboxes");
    CHECK(SqliteStore::open(file));
}

TEST_CASE("Every limit of a sandbox comes back as it was put") {
    const test::TempDir dir;
    sandbox::Record record = box("a");
    record.limits = {1, 2, 3, 4, 5, 6};
    REQUIRE(test::commit(*open(dir.path() / "db"), {PutSandbox{record}}));
    const auto found = test::find_sandbox(*open(dir.path() / "db"), "a");
    REQUIRE(found);
    REQUIRE(found->has_value());
    CHECK((*found)->limits == record.limits);
}

TEST_CASE(
    "What a preview shows comes back as it was put, and from before there was such a thing as the default") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    REQUIRE(test::commit(*open(file), {PutSandbox{box("a")}, PutSandbox{box("b")}}));
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
        .exec(
            "ALTER TABLE sandboxes DROP COLUMN preview_access; ALTER TABLE sandboxes DROP COLUMN "
            "preview_wake; "
            "ALTER TABLE sandboxes DROP COLUMN preview_ports; ALTER TABLE sandboxes DROP COLUMN tmp_mb; "
            "DROP TABLE preview_numbers; DROP TABLE log_epoch; PRAGMA "
            "user_version = 8");
    const auto before = test::find_sandbox(*open(file), "a")->value().preview;
    CHECK(before == sandbox::PreviewSettings());
    CHECK(before.ports == std::vector<std::uint16_t>{5173});
    sandbox::Record record = box("a");
    record.preview = {sandbox::PreviewAccess::token_bearers, false, {3000, 65535, 1}};
    REQUIRE(test::commit(*open(file), {PutSandbox{record}}));
    CHECK(test::find_sandbox(*open(file), "a")->value().preview == record.preview);
    CHECK(test::find_sandbox(*open(file), "b")->value().preview == before);
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
        .exec("UPDATE sandboxes SET preview_ports = 'x,,70000,0,8080'");
    CHECK(test::find_sandbox(*open(file), "a")->value().preview.ports == std::vector<std::uint16_t>{8080});
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE).exec("UPDATE sandboxes SET preview_ports = ''");
    CHECK(test::find_sandbox(*open(file), "a")->value().preview.ports == std::vector<std::uint16_t>{5173});
}

TEST_CASE("A database from before kept processes takes them, and the rule of its tools") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    Record record;
    record.key = 7;
    record.id = "c7";
    REQUIRE(test::commit(*open(file), {PutConversation{record}}));
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
        .exec(
            "DROP TABLE kept_processes; ALTER TABLE conversations DROP COLUMN read_before_edit; "
            "ALTER TABLE sandboxes DROP COLUMN preview_access; ALTER TABLE sandboxes DROP COLUMN "
            "preview_wake; "
            "ALTER TABLE sandboxes DROP COLUMN preview_ports; ALTER TABLE sandboxes DROP COLUMN tmp_mb; "
            "DROP TABLE preview_numbers; DROP TABLE log_epoch; PRAGMA "
            "user_version = 7");
    record.tools.read_before_edit = true;
    const auto before = test::load(*open(file), "c7");
    CHECK_FALSE((*before)->record.tools.read_before_edit);
    REQUIRE(test::commit(*open(file), {PutConversation{record}, PutKeptProcess{7, {1, {}}}}));
    const auto after = test::load(*open(file), "c7");
    CHECK((*after)->record.tools.read_before_edit);
    CHECK((*after)->kept_processes.size() == 1);
}

TEST_CASE("Two rows of one sandbox are refused in clear words") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    REQUIRE(test::commit(*open(file), {PutSandbox{box("a")}, PutSandbox{box("b")}}));
    // As a version without unique indexes could be.
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
        .exec(
            "DROP INDEX conversations_by_id; DROP INDEX sandboxes_by_id; UPDATE sandboxes SET id = 'a'; "
            "PRAGMA user_version = 3");
    const auto refused = SqliteStore::open(file);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().detail().find("is damaged (UNIQUE constraint failed: sandboxes.id)") !=
          std::string::npos);
}

TEST_CASE("A database of a newer version is refused and stays as it is") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    open(file).reset();
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 99");
    const auto refused = SqliteStore::open(file);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().detail().find("newer server") != std::string::npos);
    CHECK(
        SQLite::Database(file.string(), SQLite::OPEN_READWRITE).execAndGet("PRAGMA user_version").getInt() ==
        99);
}

TEST_CASE("A sandbox has one row, whatever is put, erased and put again") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    {
        const auto store = open(file);
        REQUIRE(test::commit(*store, {PutSandbox{box("b")}, PutSandbox{box("a")}}));
        REQUIRE(test::commit(*store, {PutSandbox{box("b")}, PutSandbox{box("c")}}));
        CHECK(box_ids(*store) == std::vector<std::string>{"a", "b", "c"});
        REQUIRE(test::commit(*store, {EraseSandbox{"a"}, PutSandbox{box("a")}}));
        CHECK(box_ids(*store) == std::vector<std::string>{"a", "b", "c"});
        REQUIRE(test::commit(*store, {EraseSandbox{"a"}, EraseSandbox{"nobody"}}));
        CHECK(box_ids(*store) == std::vector<std::string>{"b", "c"});
    }
    // A sandbox that another run has stored.
    const auto store = open(file);
    REQUIRE(test::commit(*store, {PutSandbox{box("d")}, PutSandbox{box("c")}, EraseSandbox{"b"}}));
    CHECK(box_ids(*store) == std::vector<std::string>{"c", "d"});
}

TEST_CASE("What a failed batch erased or put is so when it is tried again") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    REQUIRE(test::commit(*store, {PutSandbox{box("a")}, AppendEvent{1, event(1)}}));
    const std::vector<Write> clash{EraseSandbox{"a"}, PutSandbox{box("b")}, AppendEvent{1, event(1)}};
    REQUIRE_FALSE(test::commit(*store, clash));
    CHECK(box_ids(*store) == std::vector<std::string>{"a"});
    REQUIRE(test::commit(*store, {EraseSandbox{"a"}, PutSandbox{box("b")}}));
    CHECK(box_ids(*store) == std::vector<std::string>{"b"});
}

}  // namespace schema_test
