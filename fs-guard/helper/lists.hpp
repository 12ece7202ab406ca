// Lists and turns from the server's database (core/store/finder.hpp), over a connection that only reads.
#pragma once

#include <string>

namespace atl::helper {

/// The members of the answer to a question (core/store/list_helper.hpp), as JSON text. The database stays
/// open for the next one, unless SQLite met an error. Throws std::exception if it cannot be opened.
std::string find(const std::string& database, const std::string& question);
/// Does nothing if it is not open.
void close_database();

}  // namespace atl::helper
