#include "fs-guard/helper/lists.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include <memory>

#include "core/base/json_writer.hpp"
#include "core/store/finder.hpp"

namespace atl::helper {
namespace {

constexpr int k_list_busy_timeout_ms = 1000;
constexpr char k_cache[] = "PRAGMA cache_size = -16384";  // KiB

struct OpenDatabase {
    explicit OpenDatabase(const std::string& file)
        : name(file), database(file, SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX, k_list_busy_timeout_ms) {
        database.exec(k_cache);
        finder = std::make_unique<store::Finder>(database);
    }

    std::string name;
    SQLite::Database database;
    std::unique_ptr<store::Finder> finder;  // has statements of `database`
};

std::unique_ptr<OpenDatabase> open_database;

}  // namespace

std::string find(const std::string& database, const std::string& question) {
    std::string members;
    base::JsonWriter out(members);
    if (!open_database || open_database->name != database) {
        open_database.reset();
        open_database = std::make_unique<OpenDatabase>(database);
    }
    try {
        // The answer may throw: nothing of it may be written before.
        const std::string found = open_database->finder->answer(question);
        out.key("found").raw(found);
    } catch (const SQLite::Exception& error) {
        open_database.reset();
        out.key("sqliteCode")
            .raw(std::to_string(error.getErrorCode()))
            .key("sqliteText")
            .string(error.what());
    }
    return members;
}

void close_database() {
    open_database.reset();
}

}  // namespace atl::helper
