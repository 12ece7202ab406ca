#include <sys/stat.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "core/base/limits.hpp"
#include "core/store/sqlite_store.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace store_test {

using namespace atl;
using namespace atl::conversation;
using store::SqliteStore;

namespace {

conversation::Record conversation_record(std::int64_t key) {
    conversation::Record record;
    record.key = key;
    record.id = "conversation" + std::to_string(key);
    record.agent = "shell";
    record.user_id = "user \xc3\xa4";
    record.metadata = R"({"a":1})";
    record.sandbox_id = "box" + std::to_string(key);
    record.status = conversation::Status::active;
    record.idle_seconds = 5;
    record.ttl_seconds = 4'000'000'000;
    record.created_at = base::WallTime{base::Millis{123}};
    return record;
}

EventPtr event(std::uint64_t seq, const std::string& text = "x") {
    return make_event(seq, EventType::text_delta, base::WallTime{}, 1, "{\"delta\":\"" + text + "\"}");
}

std::unique_ptr<SqliteStore> open(const std::filesystem::path& file) {
    auto opened = SqliteStore::open(file);
    REQUIRE(opened);
    return std::move(*opened);
}

/// A database of some size, closed: conversation 1 with as many events of 50 KB.
void fill(const std::filesystem::path& file, std::uint64_t events) {
    const auto store = open(file);
    REQUIRE(test::commit(*store, {PutConversation{conversation_record(1)}}));
    const std::string text(50'000, 'x');
    for (std::uint64_t seq = 1; seq <= events; ++seq)
        REQUIRE(test::commit(*store, {AppendEvent{1, event(seq, text)}}));
    REQUIRE(test::commit(*store, {PutTurn{{1, 1, "", "digest", 1, events, events * text.size()}}}));
}

/// How many rows a purge of so many at the most removed.
std::size_t purge(SqliteStore& store, std::int64_t key, std::uint64_t below_seq, std::size_t most) {
    const auto purged = store.purge_log(key, below_seq, {most, 1UL << 30});
    REQUIRE(purged);
    return purged->rows;
}

/// The bytes that this process has read so far (proc(5), /proc/PID/io).
std::uint64_t bytes_read() {
    std::ifstream file("/proc/self/io");
    std::string name;
    std::uint64_t value = 0;
    while (file >> name >> value) {
        if (name == "rchar:")
            return value;
    }
    return 0;
}

}  // namespace

TEST_CASE("What was committed is there after the store is opened again") {
    const test::TempDir dir;
    sandbox::Record box;
    box.id = "box1";
    box.conversation_id = "conversation1";
    box.generation = 3;
    box.env = {{"A", "x=y\n"}};
    TurnRecord turn{1, 1, "key", "digest", 1, 0, 7};
    {
        const auto store = open(dir.path() / "db");
        REQUIRE(test::commit(*store, {PutConversation{conversation_record(1)}, PutSandbox{box}, PutTurn{turn},
                                      AppendEvent{1, event(1)}, AppendEvent{1, event(2)}}));
    }
    const auto store = open(dir.path() / "db");
    const auto stored = test::load(*store, conversation_record(1).id);
    REQUIRE(stored);
    REQUIRE(stored->has_value());
    const auto& record = (*stored)->record;
    CHECK(record.user_id == "user \xc3\xa4");
    CHECK(record.ttl_seconds == 4'000'000'000);
    CHECK(record.last_seq == 2);
    CHECK(record.last_turn == 1);
    const auto found = test::find_sandbox(*store, "box1");
    REQUIRE(found);
    REQUIRE(found->has_value());
    CHECK((*found)->env == box.env);
    CHECK((*found)->generation == 3);
    REQUIRE((*stored)->turns.size() == 1);
    CHECK((*stored)->turns[0].idempotency_key == "key");
    CHECK_FALSE(test::load(*store, "nobody")->has_value());
    CHECK(test::find_turn(*store, 1, "key")->turn == 1);
    CHECK(test::find_turn(*store, 2, "key")->turn == 0);
    const auto events = test::read_events(*store, 1, 0, 1'000'000);
    REQUIRE(events);
    REQUIRE(events->size() == 2);
    CHECK((*events)[1]->json == event(2)->json);
    CHECK((*events)[1]->type == EventType::text_delta);
}

TEST_CASE("A process that is kept comes back as it was put, and goes with its conversation") {
    const test::TempDir dir;
    sandbox::ProcessSpec script;
    script.id = "first";
    script.tag = "d\xc3\xa9v";
    script.program.command = "npm run dev\n";
    script.program.directory = "/workspace/app";
    script.program.env = {{"B", "2"}, {"A", "\"1\"\n"}};
    script.program.timeout = std::chrono::milliseconds(2'592'000'000);
    script.program.stdin_kind = sandbox::RunSpec::Stdin::pipe;
    sandbox::ProcessSpec shell;
    shell.id = "second";
    shell.program.argv = {"bash", "-c", ""};
    shell.terminal = sandbox::TerminalSize{4096, 1};
    const auto kept = [&dir](std::int64_t key) {
        const auto stored = test::load(*open(dir.path() / "db"), conversation_record(key).id);
        REQUIRE(stored);
        return stored->has_value() ? (*stored)->kept_processes : std::vector<RestartedProcess>();
    };
    REQUIRE(test::commit(
        *open(dir.path() / "db"),
        {PutConversation{conversation_record(1)}, PutConversation{conversation_record(2)},
         PutKeptProcess{1, {4, shell}}, PutKeptProcess{1, {2, script}}, PutKeptProcess{2, {1, shell}}}));
    const auto found = kept(1);
    REQUIRE(found.size() == 2);
    CHECK(found[0].number == 2);
    CHECK(found[0].spec.id == "first");
    CHECK(found[0].spec.tag == script.tag);
    CHECK(found[0].spec.program.command == script.program.command);
    CHECK(found[0].spec.program.directory == script.program.directory);
    CHECK(found[0].spec.program.env == script.program.env);
    CHECK(found[0].spec.program.timeout == script.program.timeout);
    CHECK(found[0].spec.program.stdin_kind == sandbox::RunSpec::Stdin::pipe);
    CHECK_FALSE(found[0].spec.terminal.has_value());
    CHECK(found[1].number == 4);
    CHECK(found[1].spec.program.argv == shell.program.argv);
    CHECK_FALSE(found[1].spec.program.command.has_value());
    CHECK(found[1].spec.program.stdin_kind == sandbox::RunSpec::Stdin::none);
    CHECK(found[1].spec.terminal == shell.terminal);
    script.id = "third";
    REQUIRE(test::commit(*open(dir.path() / "db"), {PutKeptProcess{1, {2, script}}, EraseKeptProcess{1, 4}}));
    REQUIRE(kept(1).size() == 1);
    CHECK(kept(1)[0].spec.id == "third");
    REQUIRE(test::commit(*open(dir.path() / "db"),
                         {EraseConversation{1}, PutConversation{conversation_record(1)}}));
    CHECK(kept(1).empty());
    CHECK(kept(2).size() == 1);
}

TEST_CASE("A batch that fails leaves nothing and can be tried again") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    REQUIRE(test::commit(*store, {AppendEvent{1, event(2)}}));
    const std::vector<Write> clash{AppendEvent{1, event(1)}, AppendEvent{1, event(2)}};
    const auto failed = test::commit(*store, clash);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == base::Errc::storage_failed);
    CHECK(test::read_events(*store, 1, 0, 1'000'000)->size() == 1);
    REQUIRE(test::commit(*store, {AppendEvent{1, event(1)}}));
}

TEST_CASE("Logs of neighbours do not mix, and reading is bounded") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    std::vector<Write> writes;
    for (std::uint64_t seq = 1; seq <= 100; ++seq) {
        writes.emplace_back(AppendEvent{1, event(seq, std::string(1000, 'a'))});
        writes.emplace_back(AppendEvent{2, event(seq, "b")});
    }
    REQUIRE(test::commit(*store, writes));
    const auto some = test::read_events(*store, 1, 10, 5000);
    REQUIRE(some);
    CHECK(some->size() == 5);
    CHECK(some->front()->seq == 11);
    CHECK(test::read_events(*store, 1, 10, 1)->size() == 1);
    CHECK(test::read_events(*store, 2, 0, 4 * base::k_least_event_cost_bytes)->size() == 4);  // short ones
    CHECK(test::read_events(*store, 1, 100, 5000)->empty());
    CHECK(purge(*store, 1, 51, 20) == 20);
    CHECK(purge(*store, 1, 51, 100) == 30);
    CHECK(test::read_events(*store, 1, 0, 1)->front()->seq == 51);
    CHECK(test::read_events(*store, 2, 0, 1)->front()->seq == 1);
}

TEST_CASE("Turns whose record was not written any more are found in the log") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    const auto logged = [](std::uint64_t seq, std::uint64_t turn, EventType type) {
        return Write{AppendEvent{2, make_event(seq, type, base::WallTime{}, turn, "{}")}};
    };
    std::vector<Write> writes{
        PutConversation{conversation_record(1)},    PutConversation{conversation_record(2)},
        PutConversation{conversation_record(3)},    logged(1, 0, EventType::session_start),
        logged(2, 1, EventType::text_delta),        logged(3, 1, EventType::done),
        logged(4, 2, EventType::text_delta),        logged(5, 2, EventType::done),
        logged(6, 0, EventType::sandbox_paused),    logged(7, 3, EventType::text_delta),
        PutTurn{TurnRecord{1, 9, "", "", 1, 4, 1}}, PutTurn{TurnRecord{2, 1, "", "", 2, 3, 100}}};
    SECTION("without a record") {}
    SECTION("with two records that are still open") {
        writes.emplace_back(PutTurn{TurnRecord{2, 2, "key", "digest", 4, 0, 0}});
        writes.emplace_back(PutTurn{TurnRecord{2, 3, "other", "digest", 7, 0, 0}});
    }
    SECTION("with a record that is still open") {
        writes.emplace_back(PutTurn{TurnRecord{2, 2, "key", "digest", 4, 0, 0}});
    }
    REQUIRE(test::commit(*store, writes));
    CHECK((*test::load(*store, conversation_record(1).id))->unrecorded_turns.empty());
    const auto stored = test::load(*store, conversation_record(2).id);
    REQUIRE(stored);
    const auto& found = (*stored)->unrecorded_turns;
    REQUIRE(found.size() == 2);
    CHECK(found[0].turn == 2);
    CHECK(found[0].first_seq == 4);
    CHECK(found[0].last_seq == 5);
    CHECK(found[0].done);
    CHECK(found[0].bytes > 100);
    CHECK(found[1].turn == 3);
    CHECK_FALSE(found[1].done);
}

TEST_CASE("Events whose conversation is gone are found without reading every event") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    Record cut = conversation_record(3);
    REQUIRE(test::commit(
        *store, {PutConversation{conversation_record(1)}, PutConversation{conversation_record(2)},
                 PutConversation{cut}, PutConversation{conversation_record(7)}, AppendEvent{1, event(1)},
                 AppendEvent{2, event(1)}, AppendEvent{3, event(1)}, AppendEvent{3, event(2)},
                 AppendEvent{7, event(1)}}));
    cut.first_seq = 2;
    REQUIRE(test::commit(*store, {PutConversation{cut}, EraseConversation{1}, EraseConversation{7}}));
    const auto left = [&] {
        const auto state = test::load_start(*store);
        REQUIRE(state);
        CHECK(state->last_key == (state->left_events.empty() ? 3 : 7));
        std::vector<std::pair<std::int64_t, std::uint64_t>> found;
        for (const LeftEvents& each : state->left_events)
            found.emplace_back(each.key, each.below_seq);
        return found;
    };
    constexpr std::uint64_t k_all = std::uint64_t{1} << 36;
    using Left = std::vector<std::pair<std::int64_t, std::uint64_t>>;
    CHECK(left() == Left{{1, k_all}, {3, 2}, {7, k_all}});
    // Known until all of them are gone.
    CHECK(purge(*store, 1, k_all, 1) == 1);
    CHECK(left().size() == 3);
    for (const std::int64_t key : {1, 3, 7})
        purge(*store, key, key == 3 ? 2 : k_all, 100);
    CHECK(left().empty());
    CHECK(test::read_events(*store, 3, 0, 1000)->size() == 1);
}

TEST_CASE("An erasure commits few rows, however long the log; its events and turns go in pieces") {
    const test::TempDir dir;
    const auto file = dir.path() / "db";
    constexpr std::uint64_t k_turns = 300;
    constexpr std::uint64_t k_all = std::uint64_t{1} << 36;
    const auto rows = [&file] {
        SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
        const auto count = [&database](const std::string& table) {
            return database.execAndGet("SELECT count(*) FROM " + table + " WHERE id >> 36 = 1").getInt();
        };
        return std::pair(count("events"), count("turns"));
    };
    {
        const auto store = open(file);
        std::vector<Write> writes{PutConversation{conversation_record(1)},
                                  PutConversation{conversation_record(2)},
                                  PutTurn{{2, 1, "2", "digest", 1, 1, 1}}};
        for (std::uint64_t number = 1; number <= k_turns; ++number) {
            writes.emplace_back(AppendEvent{1, event(number)});
            const std::uint64_t end = number == k_turns ? 0 : number;
            writes.emplace_back(PutTurn{{1, number, std::to_string(number), "digest", number, end, 1}});
        }
        REQUIRE(test::commit(*store, writes));
        REQUIRE(test::commit(*store, {EraseConversation{1}}));
        // Nobody finds any of it.
        CHECK_FALSE(test::load(*store, conversation_record(1).id)->has_value());
        CHECK(test::load_start(*store)->unfinished == std::vector<std::string>{conversation_record(2).id});
    }
    CHECK(rows() == std::pair(300, 300));
    {
        const auto store = open(file);
        CHECK(purge(*store, 1, k_all, 200) == 200);
        CHECK(purge(*store, 1, k_all, 200) == 200);
    }
    CHECK(rows() == std::pair(0, 200));
    {
        // The next server is told of the rest.
        const auto store = open(file);
        const auto left = test::load_start(*store)->left_events;
        REQUIRE(left.size() == 1);
        CHECK(purge(*store, left[0].key, left[0].below_seq, 200) == 200);
        CHECK(purge(*store, left[0].key, left[0].below_seq, 200) == 0);
        CHECK(test::load_start(*store)->left_events.empty());
        CHECK(test::find_turn(*store, 2, "2")->turn == 1);
    }
    CHECK(rows() == std::pair(0, 0));
}

TEST_CASE("The store pages sandboxes, counts what a user has, and finds what ends first") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    std::vector<Write> writes;
    for (std::int64_t key = 1; key <= 9; ++key) {
        Record record = conversation_record(key);
        record.user_id = key % 3 == 0 ? std::optional<std::string>("ann") : std::nullopt;
        record.status = key < 5 ? Status::paused : Status::ended;
        record.ttl_seconds = key == 2 ? 0 : static_cast<std::uint32_t>(100 - key);
        writes.emplace_back(PutConversation{record});
        sandbox::Record box;
        box.id = record.sandbox_id;
        box.conversation_id = record.id;
        box.generation = static_cast<std::uint32_t>(key);
        box.gone = key > 7;
        writes.emplace_back(PutSandbox{box});
    }
    REQUIRE(test::commit(*store, writes));
    const auto boxes = conversation::answered_at_once<Listed<sandbox::Record>>([&](auto done) {
        store->list_sandboxes({std::nullopt, 2, 4}, std::move(done));
    });
    REQUIRE(boxes);
    REQUIRE(boxes->items.size() == 4);
    CHECK(boxes->items.front().id == "box3");
    CHECK(boxes->next_key == 6);
    const auto count = [&](const std::string& user, std::size_t limit) {
        return conversation::answered_at_once<std::size_t>(
                   [&](auto done) { store->count_open(user, limit, std::move(done)); })
            .value();
    };
    CHECK(count("ann", 10) == 1);
    CHECK(count("nobody", 10) == 0);
    const auto ending = [&](bool has_ended, std::size_t limit) {
        return conversation::answered_at_once<std::vector<Ending>>(
                   [&](auto done) { store->find_ending(has_ended, limit, std::move(done)); })
            .value();
    };
    REQUIRE(ending(false, 9).size() == 3);
    CHECK(ending(false, 9).front().id == "conversation4");
    CHECK(ending(false, 9).front().life == std::chrono::seconds{96});
    REQUIRE(ending(true, 2).size() == 2);
    CHECK(ending(true, 2).front().id == "conversation9");

    const auto state = test::load_start(*store);
    REQUIRE(state);
    CHECK(state->by_status[Status::ended] == 5);
    // Ended, with a sandbox that is not gone.
    CHECK(std::set(state->unfinished.begin(), state->unfinished.end()) ==
          std::set<std::string>{"conversation5", "conversation6", "conversation7"});
    CHECK(state->sandboxes == 7);
}

TEST_CASE("A database from before an index gets it at the next start") {
    const test::TempDir dir;
    open(dir.path() / "db").reset();
    SQLite::Database((dir.path() / "db").string(), SQLite::OPEN_READWRITE)
        .exec("DROP INDEX ended_by_age; DROP INDEX present_by_conversation");
    const auto store = open(dir.path() / "db");
    CHECK(test::load_start(*store));
}

TEST_CASE("What is asked of the store often goes through an index") {
    const test::TempDir dir;
    open(dir.path() / "db").reset();
    SQLite::Database database((dir.path() / "db").string(), SQLite::OPEN_READWRITE);
    const auto plan = [&](const std::string& sql) {
        std::string text;
        SQLite::Statement rows(database, "EXPLAIN QUERY PLAN " + sql);
        while (rows.executeStep())
            text += rows.getColumn(3).getString() + "\n";
        return text;
    };
    using Catch::Matchers::ContainsSubstring;
    CHECK_THAT(plan("SELECT * FROM conversations WHERE id = ?"), ContainsSubstring("conversations_by_id"));
    const auto walks = [&](const std::string& sql, const std::string& index) {
        CAPTURE(sql);
        const std::string text = plan(sql);
        CHECK_THAT(text, ContainsSubstring(index));
        CHECK_THAT(text, !ContainsSubstring("TEMP B-TREE"));
    };
    walks(
        "SELECT id FROM conversations INDEXED BY conversations_by_end WHERE ttl_seconds > 0 AND status <> 3 "
        "ORDER BY created_at + 1000 * ttl_seconds LIMIT ?",
        "conversations_by_end");
    walks(
        "SELECT id FROM conversations INDEXED BY ended_by_age WHERE status = 3 "
        "ORDER BY created_at + 1000 * ttl_seconds LIMIT ?",
        "ended_by_age");
    const std::string in_order = " AND (c.created_at, c.key) < (?, ?) ORDER BY c.created_at DESC, c.key DESC";
    for (const auto& [index, column] :
         std::map<std::string, std::string>{{"conversations_by_user", "user_id"},
                                            {"conversations_by_agent", "agent"},
                                            {"conversations_by_status", "status"}})
        walks(
            "SELECT c.* FROM conversations c INDEXED BY " + index + " WHERE c." + column + " = ?" + in_order,
            index + " (" + column + "=? AND created_at<?)");
    walks(
        "SELECT c.* FROM metadata_members m CROSS JOIN conversations c ON c.key = m.key WHERE m.name = ? AND "
        "m.value = ? AND (m.created_at, m.key) < (?, ?) ORDER BY m.created_at DESC, m.key DESC",
        "PRIMARY KEY (name=? AND value=? AND (created_at,key)<(?,?))");
    CHECK_THAT(plan("SELECT conversations.id FROM turns JOIN conversations ON key = turns.id >> 36 WHERE "
                    "turns.last_seq = 0"),
               ContainsSubstring("open_turns"));
}

TEST_CASE("The database is readable by its owner alone") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    std::uintmax_t wal_bytes = 0;
    store->on_commit([&](std::uintmax_t bytes) { wal_bytes = bytes; });
    REQUIRE(test::commit(*store, {AppendEvent{1, event(1)}}));
    CHECK(wal_bytes > 0);
    for (const char* name : {"db", "db-wal", "db-shm"}) {
        struct stat status {};
        REQUIRE(::stat((dir.path() / name).c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0600);
    }
}

TEST_CASE("Another process can make a checkpoint while the database is shared, and only then") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    const auto commit = [&](std::uint64_t seq) {
        return test::commit(*store, {AppendEvent{1, event(seq, std::string(10'000, 'x'))}}).has_value();
    };
    REQUIRE(store->set_sharing(SqliteStore::Sharing::exclusive));
    REQUIRE(commit(1));
    const auto checkpoint_by_another = [&] {
        // In a process of its own: POSIX locks do not hold within one.
        const std::string command = "sqlite3 " + (dir.path() / "db").string() +
                                    " 'PRAGMA wal_checkpoint(PASSIVE);' 2>/dev/null | grep -q '^0|[1-9]'";
        return std::system(command.c_str()) == 0;
    };
    if (std::system("command -v sqlite3 >/dev/null") != 0)
        SKIP("needs the program sqlite3");
    CHECK_FALSE(checkpoint_by_another());
    REQUIRE(store->set_sharing(SqliteStore::Sharing::shared));
    REQUIRE(commit(2));
    CHECK(checkpoint_by_another());
    REQUIRE(commit(3));
    REQUIRE(store->set_sharing(SqliteStore::Sharing::exclusive));
    REQUIRE(commit(4));
    CHECK(test::read_events(*store, 1, 0, 1'000'000)->size() == 4);
}

TEST_CASE("A damaged database is refused in clear words") {
    const test::TempDir dir;
    std::ofstream(dir.path() / "garbage") << std::string(10'000, 'g');
    const auto garbage = SqliteStore::open(dir.path() / "garbage");
    REQUIRE_FALSE(garbage);
    CHECK(garbage.error().detail().find("garbage is damaged") != std::string::npos);
    CHECK(garbage.error().detail().find("restore the database from a backup") != std::string::npos);
    CHECK(garbage.error().detail().find("away") == std::string::npos);
    CHECK_FALSE(SqliteStore::open(dir.path() / "no" / "such" / "folder"));
}

TEST_CASE("A large database is opened and loaded without reading all of it") {
    const test::TempDir dir;
    fill(dir.path() / "db", 800);
    const auto size = std::filesystem::file_size(dir.path() / "db");
    REQUIRE(size > 30'000'000);
    const std::uint64_t before = bytes_read();
    const auto store = open(dir.path() / "db");
    REQUIRE(test::load_start(*store)->last_key == 1);
    CHECK(bytes_read() - before < size / 20);
    CHECK(test::read_events(*store, 1, 799, 1'000'000)->size() == 1);
}

TEST_CASE("A database that was cut short is refused at once") {
    const test::TempDir dir;
    fill(dir.path() / "db", 20);
    std::filesystem::resize_file(dir.path() / "db", std::filesystem::file_size(dir.path() / "db") - 1024);
    const auto cut = SqliteStore::open(dir.path() / "db");
    REQUIRE_FALSE(cut);
    CHECK(cut.error().detail().find("is damaged (it holds") != std::string::npos);
    std::filesystem::resize_file(dir.path() / "db", 50);
    CHECK(SqliteStore::open(dir.path() / "db").error().detail().find("header is cut short") !=
          std::string::npos);
}

TEST_CASE("Damage that a read meets is told in clear words, and ends the writing") {
    const test::TempDir dir;
    fill(dir.path() / "db", 100);
    const auto store = open(dir.path() / "db");
    CHECK(store->usable());
    {
        std::fstream file(dir.path() / "db", std::ios::in | std::ios::out | std::ios::binary);
        const auto size = std::filesystem::file_size(dir.path() / "db");
        file.seekp(static_cast<std::streamoff>(size / 10));
        file << std::string(size / 10 * 8, '\xff');
    }
    std::uint64_t after = 0;
    auto read = test::read_events(*store, 1, after, 1);
    for (; read && !read->empty(); read = test::read_events(*store, 1, after, 1))
        after = read->back()->seq;
    REQUIRE_FALSE(read);
    CHECK(read.error().detail().find("is damaged") != std::string::npos);
    CHECK(read.error().detail().find("restore the database from a backup") != std::string::npos);
    CHECK(store->usable().error().detail() == read.error().detail());
    CHECK_FALSE(test::commit(*store, {PutConversation{conversation_record(2)}}));
}

TEST_CASE("A database whose file or log is no longer where it was opened takes no writes until it is back") {
    const test::TempDir dir;
    const auto file = dir.path() / "db";
    const auto store = open(file);
    const auto commit = [&](std::int64_t key) {
        return test::commit(*store, {PutConversation{conversation_record(key)}});
    };
    REQUIRE(commit(1));
    store->check_files();
    REQUIRE(store->usable());
    for (const std::string end : {"", "-wal"}) {
        const std::filesystem::path missed = file.string() + end;
        INFO(missed);
        std::filesystem::rename(missed, dir.path() / "aside");
        store->check_files();
        CHECK(store->usable().error().detail().find(missed.string() + " was removed") != std::string::npos);
        CHECK(commit(2).error().code() == base::Errc::storage_failed);
        std::ofstream(missed) << "another";
        store->check_files();
        CHECK_FALSE(store->usable());
        std::filesystem::rename(dir.path() / "aside", missed);
        store->check_files();
        CHECK(commit(3));
    }
    CHECK(test::load_start(*store)->by_status[Status::active] == 2);
}

}  // namespace store_test
