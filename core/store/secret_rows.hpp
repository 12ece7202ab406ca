// The table of secrets (core/secrets/secret_store.hpp): each write is a statement, and so a commit, of its
// own. Internal to core/store. Throws SQLite::Exception.
#pragma once

#include <SQLiteCpp/Database.h>

#include <string_view>
#include <vector>

#include "core/secrets/secret_store.hpp"

namespace atl::store {

std::vector<secrets::Row> read_secrets(SQLite::Database& database, std::size_t limit);
void write_secret(SQLite::Database& database, const secrets::Row& row);
void erase_secret(SQLite::Database& database, std::string_view user_id, std::string_view name);
void erase_secrets_of(SQLite::Database& database, std::string_view user_id);

}  // namespace atl::store
