#include "fs-guard/helper/lists.hpp"

#include <SQLiteCpp/Database.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "core/store/finder.hpp"
#include "core/store/list_text.hpp"

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

nlohmann::json find(const std::string& database, const nlohmann::json& question) {
    if (!open_database || open_database->name != database) {
        open_database.reset();
        open_database = std::make_unique<OpenDatabase>(database);
    }
    auto answer = store::answer(*open_database->finder, question);
    if (answer.contains("sqliteCode"))
        open_database.reset();
    return answer;
}

void close_database() {
    open_database.reset();
}

}  // namespace atl::helper
