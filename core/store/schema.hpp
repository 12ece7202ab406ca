// The tables of the conversations' database; PRAGMA user_version holds their version.
#pragma once

#include <SQLiteCpp/Database.h>

#include "core/base/error.hpp"

namespace atl::store {

inline constexpr int k_schema_version = 13;

// An event's row id: the conversation's key above, its seq below. One b-tree in log order, no second index.
inline constexpr int k_seq_bits = 36;
inline constexpr std::int64_t k_max_key = (std::int64_t{1} << (62 - k_seq_bits)) - 1;

/// Makes the tables in a new database, and what an older one of this version lacks. Error: storage_failed for
/// a database of another version, with the remedy; it stays as it is.
base::Result<void> prepare_schema(SQLite::Database& database);

}  // namespace atl::store
