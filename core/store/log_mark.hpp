// The marks in the two databases by which a start tells whether the logs go on (log_epoch.hpp), as values and
// as rows.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>

namespace atl::store {

/// In the conversations' database.
struct LogMark {
    std::string epoch;
    std::int64_t count = 0;
    std::string boot;  // of the host on which a server runs; empty: it has ended

    bool operator==(const LogMark&) const = default;
};

/// In the node's store. It is written before and after the other one.
struct NodeMark {
    std::string epoch;
    std::int64_t count = 0;
    bool is_settled = false;  // no: the other mark may be one ahead, and the marker written since
    std::string place;
    std::string marker;  // its state; empty while the mark is not settled

    bool operator==(const NodeMark&) const = default;
};

// The marks as rows, for the two stores. They throw SQLite::Exception.
inline constexpr const char* k_node_mark_schema =
    "CREATE TABLE IF NOT EXISTS log_epoch (epoch TEXT NOT NULL, count INTEGER NOT NULL, "
    "is_settled INTEGER NOT NULL, place TEXT NOT NULL) STRICT";
std::optional<LogMark> read_log_mark(SQLite::Database& database);
std::optional<NodeMark> read_node_mark(SQLite::Database& database);
/// Both replace the mark in one commit. That of a LogMark is on the disk at its end.
void write_mark(SQLite::Database& database, const LogMark& mark);
void write_mark(SQLite::Database& database, const NodeMark& mark);
/// Erases the mark of a copy, also of a copy with an older schema.
void erase_log_mark(SQLite::Database& database);

}  // namespace atl::store
