#include "core/store/node_store.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <functional>

#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"

namespace node_store_test {

using namespace atl;
using sandbox::HostFacts;
using store::SqliteNodeStore;

namespace {

struct FakeHelper final : store::CheckpointHelper {
    void sync_log(const std::filesystem::path&, Done done) override { done({}); }
    void checkpoint(const std::filesystem::path& database, Done done) override {
        ++asked;
        answer = std::move(done);
        SQLite::Database(database.string(), SQLite::OPEN_READWRITE)
            .execAndGet("PRAGMA wal_checkpoint(PASSIVE)");
    }
    int asked = 0;
    Done answer;
};

struct Bench {
    std::unique_ptr<SqliteNodeStore> open(std::uintmax_t log_due_bytes = SqliteNodeStore::k_log_due_bytes) {
        auto opened = SqliteNodeStore::open(file, helper, log_due_bytes);
        REQUIRE(opened);
        return std::move(*opened);
    }
    std::vector<std::string> lines() {
        std::vector<std::string> lines;
        const auto store = open();
        for (const HostFacts& facts : store->list("", 100'000).value())
            lines.push_back(facts.sandbox_id + " " + std::to_string(facts.host_uid));
        return lines;
    }

    test::TempDir dir;
    std::filesystem::path file = dir.path() / "node.db";
    FakeHelper helper;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("node store: what was put is there after it is opened again, and what was erased is not") {
    Bench bench;
    {
        const auto store = bench.open();
        REQUIRE(store->put({"a", 1'879'048'200}));
        REQUIRE(store->put({"b", 0}));
        REQUIRE(store->put({"c", 7}));
        REQUIRE(store->put({"c", 8}));
        REQUIRE(store->erase("b"));
        REQUIRE(store->erase("nobody"));
    }
    CHECK(bench.lines() == Lines{"a 1879048200", "c 8"});
    struct stat status {};
    REQUIRE(::stat(bench.file.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("node store: a call that has ended survives the death of the server") {
    Bench bench;
    const auto store = bench.open();
    REQUIRE(store->put({"a", 1}));
    // The copied files are as a dead process would leave them.
    Bench copy;
    for (const char* end : {"", "-wal"})
        std::filesystem::copy_file(bench.file.string() + end, copy.file.string() + end);
    CHECK(copy.lines() == Lines{"a 1"});
}

TEST_CASE("node store: the helper writes a long log back, once at a time, and the log begins anew") {
    Bench bench;
    const auto store = bench.open(100'000);
    const auto log_bytes = [&] { return std::filesystem::file_size(bench.file.string() + "-wal"); };
    while (bench.helper.asked == 0) {
        REQUIRE(log_bytes() < 200'000);
        REQUIRE(store->put({"a", 1}));
    }
    const auto longest = log_bytes();
    CHECK(longest >= 100'000);
    bench.helper.answer({});
    for (std::uint32_t i = 0; i < 10; ++i)
        REQUIRE(store->put({"b", i}));
    CHECK(log_bytes() == longest);
    while (bench.helper.asked == 1)
        REQUIRE(store->erase("b").has_value() == store->put({"b", 1}).has_value());
    CHECK(log_bytes() < longest + 50'000);
    // Not answered yet.
    for (std::uint32_t i = 0; i < 100; ++i)
        REQUIRE(store->put({"b", i}));
    CHECK(bench.helper.asked == 2);
}

TEST_CASE("node store: a damaged file is refused with the remedy") {
    Bench bench;
    std::ofstream(bench.file) << std::string(10'000, 'x');
    const auto refused = SqliteNodeStore::open(bench.file, bench.helper);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == base::Errc::storage_failed);
    CHECK(refused.error().detail().find("is damaged") != std::string::npos);
    CHECK(refused.error().detail().find("the next start makes it anew from the workspaces") !=
          std::string::npos);
}

TEST_CASE("node store: a call that fails has changed nothing, and the next one may succeed") {
    Bench bench;
    const auto store = bench.open();
    REQUIRE(store->put({"a", 1}));
    SQLite::Database other(bench.file.string(), SQLite::OPEN_READWRITE);
    other.exec("CREATE TRIGGER refuse BEFORE INSERT ON sandboxes BEGIN SELECT RAISE(ABORT, 'no'); END");
    const auto refused = store->put({"b", 2});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == base::Errc::storage_failed);
    other.exec("DROP TRIGGER refuse");
    REQUIRE(store->put({"c", 3}));
    CHECK(bench.lines() == Lines{"a 1", "c 3"});
}

TEST_CASE("node store: one sandbox is found by its id, and all are listed in pages") {
    Bench bench;
    const auto store = bench.open();
    REQUIRE(store->put_all(std::vector<HostFacts>{{"c", 3}, {"a", 1}, {"d", 1'879'048'200}, {"b", 2}}));
    CHECK(store->find("d").value() == 1'879'048'200);
    CHECK(store->find("e").value() == std::nullopt);
    CHECK(store->count().value() == 4);
    CHECK(store->list("", 3).value() == std::vector<HostFacts>{{"a", 1}, {"b", 2}, {"c", 3}});
    CHECK(store->list("c", 3).value() == std::vector<HostFacts>{{"d", 1'879'048'200}});
    CHECK(store->list("d", 3).value().empty());
    REQUIRE(store->erase_all(std::vector<std::string>{"a", "nobody", "c"}));
    CHECK(bench.lines() == Lines{"b 2", "d 1879048200"});
}

TEST_CASE("node store: a batch that fails has changed nothing, and later calls succeed") {
    Bench bench;
    const auto store = bench.open();
    SQLite::Database other(bench.file.string(), SQLite::OPEN_READWRITE);
    other.exec(
        "CREATE TRIGGER refuse BEFORE INSERT ON sandboxes WHEN new.id = 'b' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END");
    const auto refused = store->put_all(std::vector<HostFacts>{{"a", 1}, {"b", 2}});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == base::Errc::storage_failed);
    REQUIRE(store->put({"c", 3}));
    REQUIRE(store->put_all(std::vector<HostFacts>{{"d", 4}}));
    CHECK(bench.lines() == Lines{"c 3", "d 4"});
}

TEST_CASE("node store: the batches of a start keep the log short without a helper") {
    Bench bench;
    const auto store = bench.open(100'000);
    std::uintmax_t longest = 0;
    for (std::uint32_t batch = 0; batch < 20; ++batch) {
        std::vector<HostFacts> facts;
        for (std::uint32_t i = 0; i < 1000; ++i)
            facts.push_back({std::to_string(i * 7919 % 1000) + "-" + std::to_string(batch), i});
        REQUIRE(store->put_all(facts));
        longest = std::max(longest, std::filesystem::file_size(bench.file.string() + "-wal"));
    }
    CHECK(store->count().value() == 20'000);
    // A batch changes each page at most once.
    CHECK(longest < 100'000 + 2 * std::filesystem::file_size(bench.file));
    CHECK(bench.helper.asked == 0);
}

TEST_CASE("node store: what is asked at each load is answered through the key") {
    Bench bench;
    bench.open().reset();
    SQLite::Database database(bench.file.string(), SQLite::OPEN_READWRITE);
    SQLite::Statement plan(database, "EXPLAIN QUERY PLAN SELECT host_uid FROM sandboxes WHERE id = ?");
    REQUIRE(plan.executeStep());
    CHECK(plan.getColumn(3).getString().find("USING PRIMARY KEY") != std::string::npos);
}

}  // namespace node_store_test
