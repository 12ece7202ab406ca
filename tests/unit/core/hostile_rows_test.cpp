// Rows that no server wrote, as a restored or a copied database may have them.
#include <SQLiteCpp/Database.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.hpp"
#include "core/store/list_reads.hpp"
#include "core/store/sqlite_store.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/support/list_reading.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace hostile_rows_test {

using namespace atl;
using namespace atl::conversation;
using store::SqliteStore;

namespace {

/// A database of one conversation, its sandbox and a process that is kept, in which `sql` was done, opened
/// again.
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
        box.network = sandbox::NetworkMode::egress;
        box.egress = {{"a.example", "@npm"}, "ann"};
        box.egress.of_user = {"bea", {"@npm", "/model"}};
        box.preview.access = sandbox::PreviewAccess::token_bearers;
        auto made = SqliteStore::open(file);
        REQUIRE(made);
        box.env = {{"A", "b"}};
        RestartedProcess process{1, {}};
        process.spec.program.argv = {"true"};
        REQUIRE(test::commit(
            **made, {PutConversation{record}, PutSandbox{box}, PutKeptProcess{7, process},
                     PutTurn{{7, 1, "turn", "", 1, 0, 0}}, PutPreviewNumber{{30'001, "box", 0, false}}}));
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

std::string set_rest(const std::string& table, const std::string& member, const std::string& json) {
    return "UPDATE " + table + " SET rest = json_set(rest, '$." + member + "', json('" + json + "'))";
}

base::Result<ConversationList> list_all(SqliteStore& store) {
    return answered_at_once<ConversationList>([&](auto done) {
        store.list(ListRange{{}, ListOrder::newest_first, {}, 10}, std::move(done));
    });
}

}  // namespace

TEST_CASE("The last value of each enum is read as it was put") {
    const Altered db("UPDATE conversations SET status = 4, reason = 8");
    const auto stored = test::load(*db.store, "talk");
    REQUIRE(stored);
    CHECK((*stored)->record.status == Status::error);
    CHECK((*stored)->record.reason == PauseReason::ttl);
    CHECK((*stored)->sandbox.network == sandbox::NetworkMode::egress);
    CHECK((*stored)->sandbox.preview.access == sandbox::PreviewAccess::token_bearers);
    const auto state = test::load_start(*db.store);
    REQUIRE(state);
    CHECK(state->by_status[Status::error] == 1);
}

TEST_CASE("A list of hosts comes back with the user whose key set it; a row of an older server has none") {
    const Altered db("");
    const auto stored = test::load(*db.store, "talk");
    REQUIRE(stored);
    CHECK((*stored)->sandbox.egress.allow == std::vector<std::string>{"a.example", "@npm"});
    CHECK((*stored)->sandbox.egress.user_id == "ann");
    CHECK((*stored)->sandbox.egress.of_user == sandbox::UserRules{"bea", {"@npm", "/model"}});
    const Altered older(
        "UPDATE sandboxes SET rest = json_set(json_remove(rest, '$.egressAllow', '$.egressUserId', "
        "'$.egressRulesUserId', '$.egressUserRules'), '$.network', 0)");
    const auto of_older = test::load(*older.store, "talk");
    REQUIRE(of_older);
    CHECK((*of_older)->sandbox.network == sandbox::NetworkMode::none);
    CHECK((*of_older)->sandbox.egress.allow.empty());
    CHECK((*of_older)->sandbox.egress.user_id.empty());
    CHECK((*of_older)->sandbox.egress.of_user == sandbox::UserRules());
}

TEST_CASE("A conversation with a status that there is not is refused by its key, at the start and later") {
    for (const std::string status : {"200", "5", "-1", "4294967297"}) {
        const Altered db("UPDATE conversations SET status = " + status);
        const std::string what = "the row with the key 7 in conversations has a status of " + status;
        check_refused(test::load_start(*db.store), what);
        check_refused(test::load(*db.store, "talk"), what);
        check_refused(list_all(*db.store), what);
    }
}

TEST_CASE("A column with a number that no server writes is refused by the row's key") {
    for (const auto& [column, value] :
         std::vector<std::pair<std::string, std::string>>{{"reason", "9"},
                                                          {"ttl_seconds", "4294967296"},
                                                          {"ttl_seconds", "-1"},
                                                          {"created_at", "-1"},
                                                          {"last_active_at", "9223372036854775807"},
                                                          {"first_seq", "0"},
                                                          {"first_seq", "68719476736"}}) {
        const Altered db("UPDATE conversations SET " + column + " = " + value);
        const std::string what = "the row with the key 7 in conversations has a " + column + " of " + value;
        check_refused(test::load(*db.store, "talk"), what);
        check_refused(list_all(*db.store), what);
    }
    const Altered gone("UPDATE sandboxes SET gone = 2");
    check_refused(test::find_sandbox(*gone.store, "box"), "the key 1 in sandboxes has a gone of 2");
    const Altered turn("UPDATE turns SET last_seq = 1 << 36");
    check_refused(test::find_turn(*turn.store, 7, "turn"), "in turns has a last_seq of 68719476736");
    check_refused(test::load(*turn.store, "talk"), "in turns has a last_seq of 68719476736");
    const Altered number("UPDATE preview_numbers SET number = 65536");
    check_refused(test::load_start(*number.store), "the key 65536 in preview_numbers has a number of 65536");
    const Altered ending("UPDATE conversations SET ttl_seconds = 9223372036854775807");
    check_refused(answered_at_once<std::vector<Ending>>(
                      [&](auto done) { ending.store->find_ending(false, 9, std::move(done)); }),
                  "the row with the key 7 in conversations has a 1000 * ttl_seconds of ");
}

TEST_CASE("A column of another type is refused by the row's key, in a table that takes any") {
    const std::string loose =
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '');"
        "PRAGMA writable_schema = RESET;";
    const Altered text(loose + "UPDATE conversations SET last_active_at = 'long ago'");
    check_refused(test::load(*text.store, "talk"), "has a last_active_at of long ago");
    const Altered blob(loose + "UPDATE conversations SET agent = x'ff00'");
    check_refused(test::load(*blob.store, "talk"), "has a agent of ");
    const Altered real(loose + "UPDATE sandboxes SET gone = 0.5");
    check_refused(test::find_sandbox(*real.store, "box"), "has a gone of 0.5");
}

TEST_CASE("A sandbox with a network or an access that there is not is refused by its key") {
    for (const std::string member : {"network", "previewAccess"}) {
        for (const std::string value : {"3", "-1", "256", "4294967296"}) {
            const Altered db(set_rest("sandboxes", member, value));
            const std::string what = "the row with the key 1 in sandboxes has a " + member + " of " + value;
            check_refused(test::load(*db.store, "talk"), what);
            check_refused(test::find_sandbox(*db.store, "box"), what);
            check_refused(list_all(*db.store), what);
        }
    }
    const Altered alone(set_rest("sandboxes", "network", "3") +
                        "; UPDATE sandboxes SET conversation_id = NULL");
    check_refused(test::load_start(*alone.store), "the key 1 in sandboxes has a network of 3");
}

TEST_CASE("A member of rest with a value that no server writes is refused by the row's key") {
    for (const auto& [member, value] : std::vector<std::pair<std::string, std::string>>{
             {"memoryMb", "4294967296"},
             {"memoryMb", "-1"},
             {"memoryMb", "18446744073709551615"},
             {"memoryMb", "64.5"},
             {"memoryMb", "{\"is\":64}"},
             {"memoryMb", "null"},
             {"generation", "[1]"},
             {"createdAt", "9223372036854775807"},
             {"metadata", "{}"},
             {"previewWake", "2"},
             {"previewPorts", "8080"},
             {"previewPorts", "[]"},
             {"previewPorts", "[0]"},
             {"previewPorts", "[70000]"},
             {"previewPorts", "[80,80]"},
             {"previewPorts",
              "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,"
              "30,31,32,33]"}}) {
        const Altered db(set_rest("sandboxes", member, value));
        const std::string what =
            "the row with the key 1 in sandboxes has a " + member + " of " + base::escaped(value, 40);
        check_refused(test::load(*db.store, "talk"), what);
        check_refused(list_all(*db.store), what);
    }
    const Altered title(set_rest("conversations", "title", "7"));
    check_refused(test::load(*title.store, "talk"), "the key 7 in conversations has a title of 7");
    check_refused(list_all(*title.store), "the key 7 in conversations has a title of 7");
    for (const auto& [member, value] :
         std::vector<std::pair<std::string, std::string>>{{"argv", "\"true\""},
                                                          {"argv", "[\"true\",7]"},
                                                          {"env", "[[\"A\"]]"},
                                                          {"env", "[[\"A\",\"b\",\"c\"]]"},
                                                          {"timeoutMs", "9223372036854775807"},
                                                          {"stdin", "2"},
                                                          {"terminal", "[80]"},
                                                          {"terminal", "[80,65536]"}}) {
        const Altered db(set_rest("kept_processes", member, value));
        check_refused(test::load(*db.store, "talk"),
                      " in kept_processes has a " + member + " of " + base::escaped(value));
    }
}

TEST_CASE("A text that is no JSON, is too deep or too long, and a rest that is no object are refused") {
    const std::string deep = "replace(hex(zeroblob(50000)), '00', '[')";
    for (const std::string& rest : std::vector<std::string>{
             "'{'", "'[]'", "''", "'{}{}'", "'{\"title\":\"' || char(10) || '\"}'", "'{\"id\":1,\"id\":1}'",
             "'{\"x\":' || " + deep + " || '}'", "'{\"x\":\"' || hex(zeroblob(300000)) || '\"}'"}) {
        for (const std::string table : {"conversations", "sandboxes", "kept_processes"}) {
            const Altered db("UPDATE " + table + " SET rest = " + rest);
            check_refused(test::load(*db.store, "talk"), " in " + table + " has a rest of ");
        }
        const Altered listed("UPDATE sandboxes SET rest = " + rest);
        check_refused(list_all(*listed.store), " in sandboxes has a rest of ");
    }
    for (const std::string& env : std::vector<std::string>{"'['", "'{}'", "'[[\"A\"]]'", "'[1]'", deep}) {
        const Altered db("UPDATE sandboxes SET env = " + env);
        check_refused(test::load(*db.store, "talk"), "the key 1 in sandboxes has a env of ");
        CHECK(list_all(*db.store));  // which leaves it out
    }
}

TEST_CASE("A row that the helper refuses is refused as by the server itself, which goes on") {
    const Altered db(set_rest("sandboxes", "network", "3"));
    test::FakeClock clock;
    test::FakeTimers timers(clock);
    test::ListReading helper;
    const store::ListReads reads(timers, helper, *db.store, db.dir.path() / "db");
    std::optional<base::Result<ConversationList>> answer;
    db.store->list({}, [&](base::Result<ConversationList> listed) { answer = std::move(listed); });
    helper.answer_all();
    REQUIRE(answer);
    check_refused(*answer, "the row with the key 1 in sandboxes has a network of 3");
    CHECK(db.store->usable());
}

TEST_CASE("A row that no server wrote stops no write of others") {
    const Altered db(set_rest("sandboxes", "network", "3"));
    REQUIRE_FALSE(test::find_sandbox(*db.store, "box"));
    CHECK(db.store->usable());
    sandbox::Record other;
    other.id = "other";
    CHECK(test::commit(*db.store, {PutSandbox{other}}));
    CHECK(test::find_sandbox(*db.store, "other")->has_value());
}

}  // namespace hostile_rows_test
