// The rows that one step of a purge removes.
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/store/sqlite_store.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace log_purge_test {

using namespace atl;
using namespace atl::conversation;
using store::SqliteStore;

namespace {

constexpr std::uint64_t k_whole_log = std::uint64_t{1} << 36;
constexpr std::size_t k_many_bytes = 1UL << 30;

struct Bench {
    Bench() {
        auto opened = SqliteStore::open(file);
        REQUIRE(opened);
        store = std::move(*opened);
        for (const std::int64_t key : {1, 2}) {
            Record record;
            record.key = key;
            record.id = "conversation" + std::to_string(key);
            REQUIRE(test::commit(*store, {PutConversation{record}}));
        }
    }
    void append(std::int64_t key, std::uint64_t events, std::size_t bytes) const {
        const std::string data = R"({"delta":")" + std::string(bytes, 'x') + R"("})";
        std::vector<Write> writes;
        for (std::uint64_t seq = 1; seq <= events; ++seq)
            writes.emplace_back(
                AppendEvent{key, make_event(seq, EventType::text_delta, base::WallTime{}, 1, data)});
        REQUIRE(test::commit(*store, writes));
    }
    /// Turns of three events each that have ended.
    void put_turns(std::int64_t key, std::uint64_t turns) const {
        std::vector<Write> writes;
        for (std::uint64_t turn = 1; turn <= turns; ++turn)
            writes.emplace_back(PutTurn{{key, turn, "", "digest", 3 * turn - 2, 3 * turn, 100}});
        REQUIRE(test::commit(*store, writes));
    }
    Purged purge(std::int64_t key, std::uint64_t below_seq, PurgeBound bound) const {
        const auto purged = store->purge_log(key, below_seq, bound);
        REQUIRE(purged);
        return *purged;
    }
    /// The numbers of the turns that have rows.
    std::vector<std::int64_t> turns(std::int64_t key) const {
        SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
        SQLite::Statement rows(database,
                               "SELECT id & ((1 << 36) - 1) FROM turns WHERE id >> 36 = ? ORDER BY id");
        rows.bind(1, key);
        std::vector<std::int64_t> found;
        while (rows.executeStep())
            found.push_back(rows.getColumn(0).getInt64());
        return found;
    }

    test::TempDir dir;
    std::filesystem::path file = dir.path() / "db";
    std::unique_ptr<SqliteStore> store;
};

}  // namespace

TEST_CASE("A step of a purge ends with the event that passes its bound of bytes, and removes one at least") {
    const Bench bench;
    bench.append(1, 20, 50'000);
    bench.append(2, 1, 10);
    Purged purged = bench.purge(1, k_whole_log, {64, 100'000});
    CHECK(purged.rows == 2);
    CHECK_FALSE(purged.is_done);
    purged = bench.purge(1, k_whole_log, {64, 1});
    CHECK(purged.rows == 1);
    CHECK_FALSE(purged.is_done);
    CHECK(test::read_events(*bench.store, 1, 0, 1)->front()->seq == 4);
    std::size_t rows = 3;
    for (int step = 0; step < 20 && !purged.is_done; ++step) {
        purged = bench.purge(1, k_whole_log, {3, k_many_bytes});
        CHECK(purged.rows <= 3);
        rows += purged.rows;
    }
    CHECK(purged.is_done);
    CHECK(rows == 20);
    CHECK(test::read_events(*bench.store, 1, 0, 1)->empty());
    CHECK(test::read_events(*bench.store, 2, 0, 1)->size() == 1);
}

TEST_CASE("A cut log's turns are purged a few at a time, up to the first one that stays, but not the last") {
    const Bench bench;
    bench.put_turns(1, 150);
    bench.put_turns(2, 1);
    Purged purged = bench.purge(1, 301, {64, k_many_bytes});
    CHECK(purged.rows == 64);
    CHECK_FALSE(purged.is_done);
    purged = bench.purge(1, 301, {64, k_many_bytes});
    CHECK(purged.rows == 36);
    CHECK(purged.is_done);
    CHECK(bench.turns(1).front() == 101);

    purged = bench.purge(1, 10'000, {64, k_many_bytes});
    CHECK(purged.rows == 49);
    CHECK(purged.is_done);
    CHECK(bench.turns(1) == std::vector<std::int64_t>{150});
    CHECK((*test::load(*bench.store, "conversation1"))->record.last_turn == 150);

    // An open one stays, too.
    REQUIRE(test::commit(*bench.store,
                         {PutTurn{{1, 151, "", "", 451, 0, 0}}, PutTurn{{1, 152, "", "", 452, 0, 0}}}));
    CHECK(bench.purge(1, 10'000, {64, k_many_bytes}).is_done);
    CHECK(bench.turns(1) == std::vector<std::int64_t>{151, 152});

    CHECK(bench.purge(1, k_whole_log, {64, k_many_bytes}).rows == 2);
    CHECK(bench.turns(1).empty());
    CHECK(bench.turns(2).size() == 1);
}

TEST_CASE("The commit of a purge tells how long the write-ahead log has become") {
    const Bench bench;
    std::uintmax_t wal_bytes = 0;
    bench.store->on_commit([&](std::uintmax_t bytes) { wal_bytes = bytes; });
    bench.append(1, 20, 50'000);
    const std::uintmax_t before = wal_bytes;
    REQUIRE(before > 0);
    bench.purge(1, k_whole_log, {64, 100'000});
    CHECK(wal_bytes > before);
}

}  // namespace log_purge_test
