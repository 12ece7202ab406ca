#include "core/store/connection.hpp"

#include <sqlite3.h>
#include <sys/stat.h>

#include "core/store/database_files.hpp"

namespace atl::store {
namespace {

using base::Errc;
using base::Error;

/// https://sqlite.org/rescode.html
bool is_damage(const SQLite::Exception& error) {
    const int code = error.getErrorCode() & 0xff;
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

Error damaged(const std::filesystem::path& file, const char* advice, const std::string& what) {
    return {Errc::storage_failed, "the database " + file.string() + " is damaged (" + what + ")" + advice};
}

/// SQLite gives its -wal and -shm files the mode of the database.
struct PrivateFiles {
    PrivateFiles() : old_mask(::umask(0077)) {}
    ~PrivateFiles() { ::umask(old_mask); }
    PrivateFiles(const PrivateFiles&) = delete;
    PrivateFiles& operator=(const PrivateFiles&) = delete;
    mode_t old_mask;
};

SQLite::Database open_private(const std::filesystem::path& file) {
    const PrivateFiles made;
    // Without it each allocation takes a lock; too late, and without effect, once SQLite was used.
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    return {file.c_str(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX};
}

}  // namespace

Connection::Connection(const std::filesystem::path& path, const char* on_damage)
    : file(path), advice(on_damage), database(open_private(path)) {
    // Takes the place of automatic checkpoints (https://sqlite.org/c3ref/wal_hook.html).
    sqlite3_wal_hook(
        database.getHandle(),
        [](void* self, sqlite3*, const char*, int frames) {
            static_cast<Connection*>(self)->wal_frames = static_cast<std::uintmax_t>(frames);
            return SQLITE_OK;
        },
        this);
    database.exec("PRAGMA journal_mode = WAL");
    database.exec("PRAGMA synchronous = NORMAL");
    database.exec("PRAGMA cache_size = -4096");
    database.exec("PRAGMA trusted_schema = OFF");
    database.setBusyTimeout(2000);
    page_bytes = database.execAndGet("PRAGMA page_size").getUInt();
}

Error Connection::failure(const SQLite::Exception& error) {
    if (is_damage(error)) {
        if (!damage)
            damage = damaged(file, advice, error.what());
        return *damage;
    }
    return {Errc::storage_failed, std::string("the database: ") + error.what() + " (SQLite result " +
                                      std::to_string(error.getExtendedErrorCode()) + ")"};
}

Error Connection::refusal(const std::filesystem::path& file, const char* advice,
                          const SQLite::Exception& error) {
    if (is_damage(error))
        return damaged(file, advice, error.what());
    return {Errc::storage_failed, "cannot open the database " + file.string() + ": " + error.what() +
                                      "; check that the folder is writable and the disk not full"};
}

base::Result<void> Connection::check(const std::filesystem::path& file, const char* advice) {
    if (auto whole = check_length(file); !whole)
        return damaged(file, advice, whole.error().detail());
    return {};
}

}  // namespace atl::store
