// The log of the floors: the least that a client can resume from. Events are found by conversation and number
// through their row id, so no second index; turns in the order in which they ended. Prepared statements, no
// checkpoints while measuring.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace atl::bench {

class BareLog {
  public:
    explicit BareLog(const std::filesystem::path& file);
    BareLog(const BareLog&) = delete;
    BareLog& operator=(const BareLog&) = delete;
    ~BareLog();

    void begin() { step(begin_); }
    void commit() { step(commit_); }
    void event(std::int64_t conversation, std::int64_t seq, std::int64_t turn, std::string_view type,
               std::string_view data);
    /// A turn: its question, and two events in two lines.
    void turn(std::int64_t conversation, std::int64_t number, std::string_view lines);

  private:
    void execute(const char* sql);
    sqlite3_stmt* prepare(const char* sql);
    void step(sqlite3_stmt* statement);

    sqlite3* db_ = nullptr;
    sqlite3_stmt* begin_ = nullptr;
    sqlite3_stmt* commit_ = nullptr;
    sqlite3_stmt* event_ = nullptr;
    sqlite3_stmt* turn_ = nullptr;
};

}  // namespace atl::bench
