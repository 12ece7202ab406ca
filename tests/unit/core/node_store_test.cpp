#include "core/store/node_store.hpp"

#include <SQLiteCpp/Database.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <functional>

#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"

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
        for (const HostFacts& facts : store->load().value())
            lines.push_back(facts.sandbox_id + " " + std::to_string(facts.host_uid));
        std::ranges::sort(lines);
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
    // As a dead process leaves the files.
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
