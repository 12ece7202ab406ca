// Lists and turns from the server's database (core/store/finder.hpp), over a connection that only reads.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace atl::helper {

/// The answer to a question of core/store/list_text.hpp. The database stays open for the next one, unless
/// SQLite met an error. Throws std::exception if it cannot be opened.
nlohmann::json find(const std::string& database, const nlohmann::json& question);
/// Does nothing if it is not open.
void close_database();

}  // namespace atl::helper
