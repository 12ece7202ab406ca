#include "core/store/log_mark.hpp"

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

namespace atl::store {
namespace {

// Stands between place and marker in the column of the place.
constexpr char k_before_marker = '\n';

}  // namespace

std::optional<LogMark> read_log_mark(SQLite::Database& database) {
    SQLite::Statement row(database, "SELECT epoch, count, boot FROM log_epoch");
    if (!row.executeStep())
        return std::nullopt;
    LogMark mark;
    mark.epoch = row.getColumn(0).getString();
    mark.count = row.getColumn(1).getInt64();
    mark.boot = row.getColumn(2).getString();
    return mark;
}

std::optional<NodeMark> read_node_mark(SQLite::Database& database) {
    SQLite::Statement row(database, "SELECT epoch, count, is_settled, place FROM log_epoch");
    if (!row.executeStep())
        return std::nullopt;
    NodeMark mark;
    mark.epoch = row.getColumn(0).getString();
    mark.count = row.getColumn(1).getInt64();
    mark.is_settled = row.getColumn(2).getInt() != 0;
    mark.place = row.getColumn(3).getString();
    if (const std::size_t end = mark.place.find(k_before_marker); end != std::string::npos) {
        mark.marker = mark.place.substr(end + 1);
        mark.place.resize(end);
    }
    return mark;
}

void write_mark(SQLite::Database& database, const LogMark& mark) {
    // No event of a running server may be on the disk without the mark.
    database.exec("PRAGMA synchronous = FULL");
    SQLite::Transaction change(database);
    database.exec("DELETE FROM log_epoch");
    SQLite::Statement row(database, "INSERT INTO log_epoch VALUES (?,?,?)");
    row.bind(1, mark.epoch);
    row.bind(2, mark.count);
    row.bind(3, mark.boot);
    row.exec();
    change.commit();
    database.exec("PRAGMA synchronous = NORMAL");
}

void write_mark(SQLite::Database& database, const NodeMark& mark) {
    SQLite::Transaction change(database);
    database.exec("DELETE FROM log_epoch");
    SQLite::Statement row(database, "INSERT INTO log_epoch VALUES (?,?,?,?)");
    row.bind(1, mark.epoch);
    row.bind(2, mark.count);
    row.bind(3, mark.is_settled ? 1 : 0);
    row.bind(4, mark.marker.empty() ? mark.place : mark.place + k_before_marker + mark.marker);
    row.exec();
    change.commit();
}

void erase_log_mark(SQLite::Database& database) {
    if (database.tableExists("log_epoch"))
        database.exec("DELETE FROM log_epoch");
}

}  // namespace atl::store
