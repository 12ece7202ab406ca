#include <sqlite3.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "core/store/paired_writes.hpp"
#include "tests/support/server_process.hpp"

using namespace atl;
namespace fs = std::filesystem;

namespace {

struct Close {
    void operator()(sqlite3* database) const { ::sqlite3_close_v2(database); }
};

class Database {
  public:
    Database(const fs::path& file, const char* vfs) {
        sqlite3* raw = nullptr;
        const int opened =
            ::sqlite3_open_v2(file.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs);
        handle_.reset(raw);
        REQUIRE(opened == SQLITE_OK);
    }
    void run(const std::string& sql) {
        INFO(sql << ": " << ::sqlite3_errmsg(handle_.get()));
        REQUIRE(::sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    }
    std::string ask(const std::string& sql) {
        sqlite3_stmt* statement = nullptr;
        REQUIRE(::sqlite3_prepare_v2(handle_.get(), sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
        const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> finalize(statement, &::sqlite3_finalize);
        REQUIRE(::sqlite3_step(statement) == SQLITE_ROW);
        return reinterpret_cast<const char*>(::sqlite3_column_text(statement, 0));
    }

  private:
    std::unique_ptr<sqlite3, Close> handle_;
};

constexpr char k_begin[] =
    "PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;"
    "CREATE TABLE t(i INTEGER PRIMARY KEY, x);";

/// Write system calls of this process so far (proc(5), /proc/PID/io).
std::uint64_t write_calls() {
    std::ifstream io("/proc/self/io");
    std::string name;
    std::uint64_t value = 0;
    while (io >> name >> value) {
        if (name == "syscw:")
            return value;
    }
    FAIL("no syscw");
    return 0;
}

std::uint64_t calls_of_a_commit(const fs::path& file, const char* vfs) {
    Database database(file, vfs);
    database.run(k_begin);
    database.run("INSERT INTO t VALUES(1,'a')");
    const std::uint64_t before = write_calls();
    database.run("UPDATE t SET x='b' WHERE i=1");
    return write_calls() - before;
}

/// The rows that another program finds in the database and its log as they are now on the disk.
std::string found_by_another(const fs::path& file, const fs::path& copy, const std::string& sql) {
    for (const char* suffix : {"", "-wal"})
        fs::copy_file(file.string() + suffix, copy.string() + suffix, fs::copy_options::overwrite_existing);
    fs::remove(copy.string() + "-shm");
    Database another(copy, nullptr);
    CHECK(another.ask("PRAGMA integrity_check") == "ok");
    return another.ask(sql);
}

}  // namespace

TEST_CASE("paired writes: a commit of one page is one write, not two") {
    const test::TempDir dir;
    CHECK(calls_of_a_commit(dir.path() / "paired", store::paired_writes_vfs()) == 1);
    CHECK(calls_of_a_commit(dir.path() / "plain", nullptr) == 2);
}

TEST_CASE("paired writes: every commit is whole in the files at once") {
    const test::TempDir dir;
    const fs::path file = dir.path() / "db";
    Database database(file, store::paired_writes_vfs());
    database.run(k_begin);
    for (int i = 0; i < 60; ++i) {
        database.run("INSERT INTO t VALUES(" + std::to_string(i) + ", randomblob(300))");
        if (i % 20 == 19)  // the log begins anew
            database.run("PRAGMA wal_checkpoint(RESTART)");
        REQUIRE(found_by_another(file, dir.path() / "copy", "SELECT count(*) FROM t") ==
                std::to_string(i + 1));
    }
}

TEST_CASE("paired writes: frames that a transaction writes twice keep their checksums") {
    const test::TempDir dir;
    const fs::path file = dir.path() / "db";
    Database database(file, store::paired_writes_vfs());
    database.run(k_begin);
    // Too little for the transaction: pages go to the log before its end, and once more after they changed.
    database.run("PRAGMA cache_size=5; PRAGMA cache_spill=1");
    database.run(
        "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500)"
        " INSERT INTO t SELECT i, randomblob(200) FROM n; UPDATE t SET x=randomblob(200); UPDATE t SET x='y';"
        "COMMIT");
    const std::string sql = "SELECT count(*) FROM t WHERE x='y'";
    CHECK(found_by_another(file, dir.path() / "copy", sql) == "500");
    database.run("BEGIN; UPDATE t SET x=randomblob(200); ROLLBACK");
    CHECK(found_by_another(file, dir.path() / "copy", sql) == "500");
    database.run("PRAGMA wal_checkpoint(TRUNCATE)");
    CHECK(found_by_another(file, dir.path() / "copy", sql) == "500");
}

TEST_CASE("paired writes: a connection takes over the log that another one left") {
    const test::TempDir dir;
    const fs::path file = dir.path() / "db";
    Database other(file, nullptr);
    other.run(k_begin);
    other.run("INSERT INTO t VALUES(1, 'other')");
    Database database(file, store::paired_writes_vfs());
    database.run("PRAGMA synchronous=FULL; INSERT INTO t VALUES(2, 'paired')");
    other.run("INSERT INTO t VALUES(3, 'other')");
    database.run("INSERT INTO t VALUES(4, 'paired')");
    CHECK(other.ask("SELECT count(*) FROM t") == "4");
    CHECK(found_by_another(file, dir.path() / "copy", "SELECT sum(i) FROM t") == "10");
}
