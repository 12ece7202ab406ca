#include "tests/bench/bare_log.hpp"

#include <sqlite3.h>

#include <chrono>
#include <stdexcept>

namespace atl::bench {
namespace {

constexpr int k_seq_bits = 36;

std::int64_t now_ms() {
    return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now())
        .time_since_epoch()
        .count();
}

}  // namespace

BareLog::BareLog(const std::filesystem::path& file) {
    if (sqlite3_open(file.c_str(), &db_) != SQLITE_OK)
        throw std::runtime_error("sqlite3_open");
    execute(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;"
        "CREATE TABLE event(id INTEGER PRIMARY KEY, turn INTEGER, type TEXT, at INTEGER, data TEXT);"
        "CREATE TABLE turn(conversation INTEGER, number INTEGER, status TEXT);");
    begin_ = prepare("BEGIN");
    commit_ = prepare("COMMIT");
    event_ = prepare("INSERT INTO event VALUES(?, ?, ?, ?, ?)");
    turn_ = prepare("INSERT INTO turn VALUES(?, ?, 'done')");
}

BareLog::~BareLog() {
    for (sqlite3_stmt* statement : {begin_, commit_, event_, turn_})
        sqlite3_finalize(statement);
    sqlite3_close(db_);
}

void BareLog::event(std::int64_t conversation, std::int64_t seq, std::int64_t turn, std::string_view type,
                    std::string_view data) {
    sqlite3_bind_int64(event_, 1, conversation << k_seq_bits | seq);
    sqlite3_bind_int64(event_, 2, turn);
    sqlite3_bind_text(event_, 3, type.data(), static_cast<int>(type.size()), SQLITE_STATIC);
    sqlite3_bind_int64(event_, 4, now_ms());
    sqlite3_bind_text(event_, 5, data.data(), static_cast<int>(data.size()), SQLITE_STATIC);
    step(event_);
}

void BareLog::turn(std::int64_t conversation, std::int64_t number, std::string_view lines) {
    const std::size_t middle = lines.find('\n');
    event(conversation, number * 3 + 1, number, "turn_start", R"({"content":"hello"})");
    event(conversation, number * 3 + 2, number, "message", lines.substr(0, middle));
    event(conversation, number * 3 + 3, number, "done", lines.substr(middle + 1));
    sqlite3_bind_int64(turn_, 1, conversation);
    sqlite3_bind_int64(turn_, 2, number);
    step(turn_);
}

void BareLog::execute(const char* sql) {
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
        throw std::runtime_error(sqlite3_errmsg(db_));
}

sqlite3_stmt* BareLog::prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(db_, sql, -1, &statement, nullptr) != SQLITE_OK)
        throw std::runtime_error(sqlite3_errmsg(db_));
    return statement;
}

void BareLog::step(sqlite3_stmt* statement) {
    if (sqlite3_step(statement) != SQLITE_DONE)
        throw std::runtime_error(sqlite3_errmsg(db_));
    sqlite3_reset(statement);
}

}  // namespace atl::bench
