// The reads of a conversation's turns by a load: in place and through the helper, from a short log and from a
// long one.
#include "core/store/turn_reader.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/limits.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/store/list_reads.hpp"
#include "core/store/sqlite_store.hpp"
#include "core/store/turn_sql.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/support/list_reading.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace turn_reader_test {

using namespace atl;
using namespace atl::conversation;
using store::SqliteStore;

namespace {

using Loaded = base::Result<std::optional<StoredConversation>>;

/// A store of which another process reads the many rows.
struct Bench {
    Bench() {
        auto opened = SqliteStore::open(file);
        REQUIRE(opened);
        store = std::move(*opened);
        for (const std::int64_t key : {1, 2, 3}) {
            Record record;
            record.key = key;
            record.id = "conversation" + std::to_string(key);
            record.sandbox_id = "box" + std::to_string(key);
            record.title = "title";
            sandbox::Record box;
            box.id = record.sandbox_id;
            box.conversation_id = record.id;
            box.env = {{"A", "1"}};
            sandbox::ProcessSpec kept;
            kept.id = "kept";
            REQUIRE(test::commit(*store,
                                 {PutConversation{record}, PutSandbox{box}, PutKeptProcess{key, {1, kept}}}));
        }
        REQUIRE(store->set_sharing(SqliteStore::Sharing::exclusive));
    }
    void use_helper() { reads.emplace(timers, helper, *store, file); }
    /// The answer, if it has come.
    std::shared_ptr<std::optional<Loaded>> ask(const std::string& id) const {
        const auto answer = std::make_shared<std::optional<Loaded>>();
        store->load(id, [answer](Loaded loaded) {
            REQUIRE_FALSE(answer->has_value());
            answer->emplace(std::move(loaded));
        });
        return answer;
    }
    StoredConversation load(const std::string& id) {
        const auto answer = ask(id);
        helper.answer_all();
        REQUIRE(answer->has_value());
        REQUIRE((*answer)->has_value());
        REQUIRE((**answer)->has_value());
        return std::move(****answer);
    }

    test::TempDir dir;
    std::filesystem::path file = dir.path() / "db";
    std::unique_ptr<SqliteStore> store;
    test::FakeClock clock;
    test::FakeTimers timers{clock};
    test::ListReading helper;
    std::optional<store::ListReads> reads;
};

Write logged(std::uint64_t seq, std::uint64_t turn, EventType type) {
    return AppendEvent{2, make_event(seq, type, base::WallTime{}, turn, "{}")};
}

bool is_same(const TurnRecord& a, const TurnRecord& b) {
    return a.conversation_key == b.conversation_key && a.turn == b.turn && a.first_seq == b.first_seq &&
           a.last_seq == b.last_seq && a.bytes == b.bytes && a.idempotency_key == b.idempotency_key &&
           a.content_digest == b.content_digest;
}

bool is_same(const LoggedTurn& a, const LoggedTurn& b) {
    return a.turn == b.turn && a.first_seq == b.first_seq && a.last_seq == b.last_seq && a.bytes == b.bytes &&
           a.done == b.done;
}

/// A log of so many turns of so many bytes each; every 1000th has as many as 200 of them.
std::vector<Write> long_log(std::uint64_t turns, std::uint64_t bytes) {
    std::vector<Write> writes;
    for (std::uint64_t turn = 1; turn <= turns; ++turn)
        writes.emplace_back(PutTurn{{2, turn, turn % 2 == 0 ? "key" + std::to_string(turn) : "", "digest",
                                     3 * turn - 2, 3 * turn, turn % 1000 == 0 ? 200 * bytes : bytes}});
    return writes;
}

}  // namespace

TEST_CASE("A load through the helper finds what the store finds by itself") {
    Bench bench;
    REQUIRE(test::commit(
        *bench.store,
        {PutTurn{{1, 9, "", "", 1, 4, 1}}, PutTurn{{3, 1, "", "", 1, 2, 5}},
         logged(1, 0, EventType::session_start), logged(2, 1, EventType::text_delta),
         logged(3, 1, EventType::done), PutTurn{{2, 1, "first", "digest", 2, 3, 100}},
         logged(4, 2, EventType::text_delta), logged(5, 2, EventType::done),
         PutTurn{{2, 2, "a \"key\"", "\xc3\xa4", 4, 0, 0}}, logged(6, 0, EventType::sandbox_paused),
         logged(7, 3, EventType::text_delta), logged(8, 0, EventType::sandbox_paused)}));
    const StoredConversation own = bench.load("conversation2");
    REQUIRE(own.turns.size() == 2);
    CHECK(own.turns[0].idempotency_key.empty());
    CHECK(own.turns[1].idempotency_key == "a \"key\"");
    REQUIRE(own.unrecorded_turns.size() == 2);
    CHECK(own.record.last_turn == 2);
    CHECK(own.open_bytes > 0);
    bench.use_helper();
    const StoredConversation read = bench.load("conversation2");
    CHECK(read.record.key == 2);
    CHECK(read.record.title == "title");
    CHECK(read.record.last_seq == 8);
    CHECK(read.record.last_turn == own.record.last_turn);
    CHECK(read.sandbox.env == own.sandbox.env);
    CHECK(read.kept_processes.size() == 1);
    CHECK(read.open_bytes == own.open_bytes);
    REQUIRE(read.turns.size() == own.turns.size());
    for (std::size_t at = 0; at < own.turns.size(); ++at)
        CHECK(is_same(read.turns[at], own.turns[at]));
    REQUIRE(read.unrecorded_turns.size() == own.unrecorded_turns.size());
    for (std::size_t at = 0; at < own.unrecorded_turns.size(); ++at)
        CHECK(is_same(read.unrecorded_turns[at], own.unrecorded_turns[at]));
}

TEST_CASE("A load finds the questions that are open where something ran, and no others") {
    Bench bench;
    if (GENERATE(false, true))
        bench.use_helper();
    const auto asked = [](std::uint64_t seq, EventType type, const std::string& id) {
        return AppendEvent{2, make_event(seq, type, base::WallTime{}, 0, R"({"id":")" + id + "\"}")};
    };
    const std::string too_long(base::k_max_permission_id_bytes + 1, 'x');
    REQUIRE(test::commit(
        *bench.store,
        {asked(1, EventType::egress_request, "cut"), asked(2, EventType::egress_request, "q1"),
         asked(3, EventType::egress_request, "q2"), asked(4, EventType::permission_request, "p1"),
         asked(5, EventType::permission_request, "p2"), asked(6, EventType::egress_resolved, "q1"),
         asked(7, EventType::permission_resolved, "p2"), asked(8, EventType::permission_request, too_long),
         asked(9, EventType::text_delta, "p3")}));
    const auto begin_as = [&bench](Status status) {
        Record record;
        record.key = 2;
        record.id = "conversation2";
        record.sandbox_id = "box2";
        record.first_seq = 2;
        record.status = status;
        REQUIRE(test::commit(*bench.store, {PutConversation{record}}));
    };
    begin_as(Status::active);
    const StoredConversation running = bench.load("conversation2");
    CHECK(running.open_questions.permissions == std::vector<std::string>{"p1"});
    CHECK(running.open_questions.hosts == std::vector<std::string>{"q2"});
    begin_as(Status::paused);
    CHECK(bench.load("conversation2").open_questions.hosts.empty());
    REQUIRE(test::commit(*bench.store, {logged(10, 1, EventType::text_delta)}));
    CHECK(bench.load("conversation2").open_questions.hosts == std::vector<std::string>{"q2"});
}

TEST_CASE("A load finds the question that was asked early in a long turn, which ended") {
    Bench bench;
    constexpr std::uint64_t k_last = 1500;
    std::vector<Write> writes{
        AppendEvent{2, make_event(1, EventType::egress_request, base::WallTime{}, 1, R"({"id":"q1"})")}};
    for (std::uint64_t seq = 2; seq < k_last; ++seq)
        writes.push_back(logged(seq, 1, EventType::text_delta));
    writes.push_back(logged(k_last, 1, EventType::done));
    if (GENERATE(true, false))
        writes.push_back(PutTurn{{2, 1, "", "", 1, k_last, 100}});
    Record record;
    record.key = 2;
    record.id = "conversation2";
    record.sandbox_id = "box2";
    record.first_seq = 1;
    record.status = Status::active;
    writes.push_back(PutConversation{record});
    REQUIRE(test::commit(*bench.store, std::move(writes)));
    CHECK(bench.load("conversation2").open_questions.hosts == std::vector<std::string>{"q1"});
}

TEST_CASE("A load waits for the helper alone, and one of nobody asks nothing of it") {
    Bench bench;
    bench.use_helper();
    const auto nobody = bench.ask("nobody");
    REQUIRE(nobody->has_value());
    REQUIRE((*nobody)->has_value());
    CHECK_FALSE((**nobody)->has_value());
    CHECK(bench.helper.asked.empty());
    const auto answer = bench.ask("conversation2");
    CHECK_FALSE(answer->has_value());
    CHECK(bench.helper.asked.size() == 1);
    // The store goes on meanwhile.
    REQUIRE(test::commit(*bench.store, {PutTurn{{1, 1, "", "", 1, 2, 5}}}));
    bench.helper.answer_all();
    REQUIRE(answer->has_value());
    CHECK((*answer)->has_value());
}

TEST_CASE("A load that the helper fails is storage_failed, and the next one is read") {
    Bench bench;
    REQUIRE(test::commit(*bench.store, {PutTurn{{2, 1, "", "", 1, 2, 5}}}));
    bench.use_helper();
    bench.helper.is_dead = true;
    const auto failed = bench.ask("conversation2");
    bench.helper.answer_all();
    REQUIRE(failed->has_value());
    REQUIRE((*failed)->has_error());
    CHECK((*failed)->error().code() == base::Errc::storage_failed);
    CHECK(bench.store->usable());
    bench.helper.is_dead = false;
    CHECK(bench.load("conversation2").turns.size() == 1);
}

TEST_CASE("A load that nobody answers any more is dropped, and the store reads by itself again") {
    Bench bench;
    bench.use_helper();
    const auto dropped = bench.ask("conversation2");
    bench.reads.reset();
    bench.helper.answer_all();
    CHECK_FALSE(dropped->has_value());
    const auto answer = bench.ask("conversation2");
    CHECK(answer->has_value());
}

TEST_CASE("The turns of a long log are loaded as few stretches of whole turns, of the same bytes") {
    Bench bench;
    constexpr std::uint64_t k_turns = 20'000;
    auto writes = long_log(k_turns, 250);
    std::map<std::uint64_t, std::uint64_t> bytes_by_end;  // of all turns up to this seq
    std::uint64_t total = 0;
    for (const Write& write : writes) {
        const TurnRecord& turn = std::get<PutTurn>(write).record;
        bytes_by_end[turn.last_seq] = total += turn.bytes;
    }
    SECTION("all ended") {}
    SECTION("the last one open") {
        writes.emplace_back(PutTurn{{2, k_turns + 1, "key", "digest", 3 * k_turns + 1, 0, 0}});
    }
    REQUIRE(test::commit(*bench.store, writes));
    const bool has_open = writes.size() > k_turns;
    bench.use_helper();
    StoredConversation read = bench.load("conversation2");
    CHECK(bench.helper.answer_bytes < base::k_list_page_bytes / 4);
    CHECK(read.record.last_turn == writes.size());
    REQUIRE(read.turns.size() <= base::k_turns_told_apart);
    if (has_open) {
        CHECK(read.turns.back().turn == k_turns + 1);
        CHECK(read.turns.back().last_seq == 0);
        CHECK(read.turns.back().idempotency_key == "key");
        read.turns.pop_back();
    }
    std::uint64_t seq = 0;
    std::uint64_t bytes = 0;
    std::uint64_t largest = 0;
    for (const TurnRecord& stretch : read.turns) {
        CHECK(stretch.first_seq == seq + 1);
        seq = stretch.last_seq;
        CHECK(stretch.turn == seq / 3);
        bytes += stretch.bytes;
        REQUIRE(bytes_by_end.contains(seq));
        CHECK(bytes_by_end[seq] == bytes);
        largest = std::max(largest, stretch.bytes);
    }
    CHECK(bytes == total);
    CHECK(seq == 3 * k_turns);
    const std::size_t newest = base::k_newest_told_apart - (has_open ? 1 : 0);
    REQUIRE(read.turns.size() > newest);
    for (std::size_t i = read.turns.size() - newest; i < read.turns.size(); ++i)
        CHECK(read.turns[i].turn == read.turns[i - 1].turn + 1);
    CHECK(largest <= std::max<std::uint64_t>(total / base::k_log_shares + 1, 200 * 250));
}

TEST_CASE("Turns up to a number are loaded one by one") {
    Bench bench;
    REQUIRE(test::commit(*bench.store, long_log(base::k_turns_told_apart, 250)));
    CHECK(bench.load("conversation2").turns.size() == base::k_turns_told_apart);
}

TEST_CASE("What a load and a purge read of turns and events are ranges of keys, not tables") {
    const Bench bench;
    REQUIRE(bench.store->set_sharing(SqliteStore::Sharing::shared));
    SQLite::Database database(bench.file.string(), SQLite::OPEN_READONLY);
    for (const char* sql :
         {store::k_last_turn_sql, store::k_turn_sums_sql, store::k_turns_sql, store::k_unrecorded_sql,
          store::k_open_bytes_sql, store::k_questions_sql, store::k_purged_events_sql,
          store::k_remove_events_sql, store::k_remove_turns_sql, store::k_remove_cut_turns_sql}) {
        CAPTURE(sql);
        SQLite::Statement rows(database, std::string("EXPLAIN QUERY PLAN ") + sql);
        std::size_t searches = 0;
        while (rows.executeStep()) {
            const std::string step = rows.getColumn(3).getString();
            CHECK_THAT(step, !Catch::Matchers::StartsWith("SCAN"));
            if (step.find("USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)") != std::string::npos)
                ++searches;
        }
        CHECK(searches > 0);
    }
}

TEST_CASE("A load finds nothing of what was cut and is still to be purged, but for the last turn's number") {
    Bench bench;
    const bool has_helper = GENERATE(false, true);
    if (has_helper)
        bench.use_helper();
    std::vector<Write> writes = long_log(10, 1);
    for (std::uint64_t seq = 1; seq <= 30; ++seq)
        writes.emplace_back(
            logged(seq, (seq + 2) / 3, seq % 3 == 0 ? EventType::done : EventType::text_delta));
    writes.emplace_back(logged(31, 0, EventType::sandbox_paused));
    writes.emplace_back(logged(32, 0, EventType::sandbox_resumed));
    REQUIRE(test::commit(*bench.store, writes));
    const auto begin_at = [&bench](std::uint64_t first_seq) {
        Record record;
        record.key = 2;
        record.id = "conversation2";
        record.sandbox_id = "box2";
        record.first_seq = first_seq;
        REQUIRE(test::commit(*bench.store, {PutConversation{record}}));
    };
    begin_at(25);
    const StoredConversation cut = bench.load("conversation2");
    CHECK(cut.record.first_seq == 25);
    CHECK(cut.record.last_turn == 10);
    REQUIRE(cut.turns.size() == 2);
    CHECK(cut.turns.front().turn == 9);
    CHECK(cut.unrecorded_turns.empty());

    begin_at(32);
    const StoredConversation without_turns = bench.load("conversation2");
    CHECK(without_turns.record.last_turn == 10);
    CHECK(without_turns.turns.empty());
    CHECK(without_turns.unrecorded_turns.empty());
    CHECK(without_turns.open_bytes > 0);
    CHECK(without_turns.open_bytes < cut.open_bytes);

    for (bool is_done = false; !is_done;) {
        const auto purged = bench.store->purge_log(2, 32, {7, 1'000'000});
        REQUIRE(purged);
        is_done = purged->is_done;
    }
    const StoredConversation purged = bench.load("conversation2");
    CHECK(purged.record.first_seq == 32);
    CHECK(purged.record.last_turn == 10);
    CHECK(purged.turns.empty());
    CHECK(purged.open_bytes == without_turns.open_bytes);
}

}  // namespace turn_reader_test
