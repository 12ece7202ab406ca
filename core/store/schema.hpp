// The database's schema and its migrations, one step a version; PRAGMA user_version holds the version.
#pragma once

#include <SQLiteCpp/Database.h>

#include "core/base/error.hpp"

namespace atl::store {

inline constexpr int k_schema_version = 12;

// An event's row id: the conversation's key above, its seq below. One b-tree in log order, no second index.
inline constexpr int k_seq_bits = 36;
inline constexpr std::int64_t k_max_key = (std::int64_t{1} << (62 - k_seq_bits)) - 1;

/// Brings `database` to k_schema_version. Error: storage_failed for a newer schema.
base::Result<void> migrate(SQLite::Database& database);

}  // namespace atl::store
