#include "core/store/secret_rows.hpp"

#include <SQLiteCpp/Statement.h>

#include <string>

namespace atl::store {

std::vector<secrets::Row> read_secrets(SQLite::Database& database, std::size_t limit) {
    SQLite::Statement rows(database,
                           "SELECT user_id, name, hosts, updated_at, sealed FROM secrets ORDER BY user_id, "
                           "name LIMIT ?");
    rows.bind(1, static_cast<std::int64_t>(limit));
    std::vector<secrets::Row> found;
    while (rows.executeStep())
        found.push_back(
            {rows.getColumn(0).getString(), rows.getColumn(1).getString(), rows.getColumn(2).getString(),
             base::WallTime(base::Millis(rows.getColumn(3).getInt64())), rows.getColumn(4).getString()});
    return found;
}

void write_secret(SQLite::Database& database, const secrets::Row& row) {
    SQLite::Statement put(database, "INSERT OR REPLACE INTO secrets VALUES (?,?,?,?,?)");
    put.bind(1, row.user_id);
    put.bind(2, row.name);
    put.bind(3, row.hosts);
    put.bind(4, static_cast<std::int64_t>(row.updated_at.time_since_epoch().count()));
    put.bind(5, row.sealed.data(), static_cast<int>(row.sealed.size()));
    put.exec();
}

void erase_secret(SQLite::Database& database, std::string_view user_id, std::string_view name) {
    SQLite::Statement erase(database, "DELETE FROM secrets WHERE user_id = ? AND name = ?");
    erase.bind(1, std::string(user_id));
    erase.bind(2, std::string(name));
    erase.exec();
}

void erase_secrets_of(SQLite::Database& database, std::string_view user_id) {
    SQLite::Statement erase(database, "DELETE FROM secrets WHERE user_id = ?");
    erase.bind(1, std::string(user_id));
    erase.exec();
}

}  // namespace atl::store
