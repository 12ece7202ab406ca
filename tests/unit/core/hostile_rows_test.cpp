// Rows that no server wrote, as a restored or a copied database may have them.
#include <SQLiteCpp/Database.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "core/store/sqlite_store.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace hostile_rows_test {

using namespace atl;
using namespace atl::conversation;
using store::SqliteStore;

namespace {

/// A database of one conversation and its sandbox, in which `sql` was done, opened again.
struct Altered {
    explicit Altered(const std::string& sql) {
        const auto file = dir.path() / "db";
        Record record;
        record.key = 7;
        record.id = "talk";
        record.agent = "shell";
        record.sandbox_id = "box";
        record.status = Status::active;
        sandbox::Record box;
        box.id = "box";
        box.conversation_id = "talk";
        box.network = sandbox::NetworkMode::host;
        box.preview.access = sandbox::PreviewAccess::token_bearers;
        auto made = SqliteStore::open(file);
        REQUIRE(made);
        REQUIRE(test::commit(**made, {PutConversation{record}, PutSandbox{box}}));
        made->reset();
        SQLite::Database(file.string(), SQLite::OPEN_READWRITE).exec(sql);
        auto opened = SqliteStore::open(file);
        REQUIRE(opened);
        store = std::move(*opened);
    }

    test::TempDir dir;
    std::unique_ptr<SqliteStore> store;
};

template <class T>
void check_refused(const base::Result<T>& answer, const std::string& what) {
    INFO(what);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code() == base::Errc::storage_failed);
    CHECK(answer.error().detail().find(what) != std::string::npos);
}

base::Result<ConversationList> list_all(SqliteStore& store) {
    return answered_at_once<ConversationList>([&](auto done) {
        store.list(ListRange{{}, ListOrder::newest_first, {}, 10}, std::move(done));
    });
}

}  // namespace

TEST_CASE("The last value of each enum is read as it was put") {
    const Altered db("UPDATE conversations SET status = 4, reason = 7");
    const auto stored = test::load(*db.store, "talk");
    REQUIRE(stored);
    CHECK((*stored)->record.status == Status::error);
    CHECK((*stored)->record.reason == PauseReason::server_restart);
    CHECK((*stored)->sandbox.network == sandbox::NetworkMode::host);
    CHECK((*stored)->sandbox.preview.access == sandbox::PreviewAccess::token_bearers);
    const auto state = test::load_start(*db.store);
    REQUIRE(state);
    CHECK(state->by_status[Status::error] == 1);
}

TEST_CASE("A conversation with a status that there is not is refused by its key, at the start and later") {
    for (const std::string status : {"200", "5", "-1", "4294967297"}) {
        const Altered db("UPDATE conversations SET status = " + status);
        const std::string what = "the row with the key 7 in conversations has a status of " + status;
        check_refused(test::load_start(*db.store), what);
        check_refused(test::load(*db.store, "talk"), what);
        check_refused(list_all(*db.store), what);
    }
    const Altered db("UPDATE conversations SET reason = 8");
    check_refused(test::load(*db.store, "talk"), "the key 7 in conversations has a reason of 8");
}

TEST_CASE("A sandbox with a network or an access that there is not is refused by its key") {
    for (const std::string column : {"network", "preview_access"}) {
        for (const std::string value : {"2", "-1", "256", "4294967296"}) {
            const Altered db("UPDATE sandboxes SET " + column + " = " + value);
            const std::string what = "the row with the key 1 in sandboxes has a " + column + " of " + value;
            check_refused(test::load(*db.store, "talk"), what);
            check_refused(test::find_sandbox(*db.store, "box"), what);
            check_refused(list_all(*db.store), what);
        }
    }
    const Altered alone("UPDATE sandboxes SET network = 2, conversation_id = ''");
    check_refused(test::load_start(*alone.store), "the key 1 in sandboxes has a network of 2");
}

TEST_CASE("A row that no server wrote stops no write of others") {
    const Altered db("UPDATE sandboxes SET network = 2");
    REQUIRE_FALSE(test::find_sandbox(*db.store, "box"));
    CHECK(db.store->usable());
    sandbox::Record other;
    other.id = "other";
    CHECK(test::commit(*db.store, {PutSandbox{other}}));
    CHECK(test::find_sandbox(*db.store, "other")->has_value());
}

}  // namespace hostile_rows_test
