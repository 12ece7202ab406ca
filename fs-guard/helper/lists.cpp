#include "fs-guard/helper/lists.hpp"

#include <SQLiteCpp/Database.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "core/store/finder.hpp"
#include "core/store/list_text.hpp"

namespace atl::helper {
namespace {

constexpr int k_busy_timeout_ms = 1000;
constexpr char k_cache[] = "PRAGMA cache_size = -16384";  // KiB

struct OpenDatabase {
    explicit OpenDatabase(const std::string& file)
        : name(file), database(file, SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX, k_busy_timeout_ms) {
        database.exec(k_cache);
        finder = std::make_unique<store::Finder>(database);
    }

    std::string name;
    SQLite::Database database;
    std::unique_ptr<store::Finder> finder;  // has statements of `database`
};

std::unique_ptr<OpenDatabase> opened;

}  // namespace

nlohmann::json find(const std::string& database, const nlohmann::json& question) {
    if (!opened || opened->name != database) {
        opened.reset();
        opened = std::make_unique<OpenDatabase>(database);
    }
    auto answer = store::answer(*opened->finder, question);
    if (answer.contains("sqliteCode"))
        opened.reset();
    return answer;
}

void close_database() {
    opened.reset();
}

}  // namespace atl::helper
