// A SQLite database opened for one store: write-ahead log, synchronous NORMAL (a commit survives the death of
// the process at once, and of the machine up to the last checkpoint or sync; sqlite.org/wal.html), mode 0600,
// no automatic checkpoints; and the words for what goes wrong with it. Internal to core/store.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/base/error.hpp"

namespace atl::store {

struct Connection {
    /// Opens or makes the database. `advice` ends the text of each error of damage: what the operator does.
    /// Throws SQLite::Exception; refusal() tells it.
    Connection(const std::filesystem::path& path, const char* advice);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// The error of a failed call; damage stays known.
    base::Error failure(const SQLite::Exception& error);
    /// The error of a database that could not be opened or brought up to date.
    static base::Error refusal(const std::filesystem::path& file, const char* advice,
                               const SQLite::Exception& error);
    /// Checks the length of the file before it is opened (database_files.hpp). Errors: storage_failed.
    static base::Result<void> check(const std::filesystem::path& file, const char* advice);
    /// The write-ahead log in bytes, after the last commit.
    std::uintmax_t log_bytes() const noexcept { return wal_frames * page_bytes; }

    std::filesystem::path file;
    const char* advice;
    SQLite::Database database;
    std::optional<base::Error> damage;
    std::uintmax_t wal_frames = 0;
    std::uintmax_t page_bytes = 0;
};

}  // namespace atl::store
