// The helper that reads lists from a database which somebody damaged.
#include <SQLiteCpp/Database.h>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "../isolation/fixture.hpp"
#include "core/store/sqlite_store.hpp"
#include "fs-guard/helper_client.hpp"
#include "tests/support/paths.hpp"

namespace helper_lists_test {

using namespace atl;

TEST_CASE("helper: a row that no list can read is told as that, and the helper goes on") {
    const test::TempFolder data;
    test::Loop loop;
    const auto helper = fs_guard::HelperClient::start(
                            loop.context.get_executor(), loop.timers,
                            {test::build_path("bin/atoll-helper"), data.path(), isolation::Priority::low})
                            .value();
    const auto database = data.path() / "atoll.db";
    std::string question;
    {
        const auto store = store::SqliteStore::open(database).value();
        store->read_lists_by([&](const auto&, const std::string& text, auto) { question = text; });
        store->log_sizes({0, 100}, [](const auto&) {});
    }
    SQLite::Database(database.string(), SQLite::OPEN_READWRITE)
        .exec(
            "INSERT INTO conversations VALUES (1, 'one', NULL, NULL, '{}', NULL, 2, 0, 0, 0, 0, 1, NULL, "
            "NULL, "
            "'no JSON')");
    const pid_t first = helper->pid();
    for (int i = 0; i < 2; ++i) {
        std::optional<base::Result<nlohmann::json>> answer;
        helper->find(database, question,
                     [&](base::Result<nlohmann::json> found) { answer = std::move(found); });
        REQUIRE(loop.run_until([&] { return answer.has_value(); }, std::chrono::seconds(240)));
        REQUIRE(answer->has_value());
        CHECK((*answer)->value("sqliteText", "").find("JSON") != std::string::npos);
    }
    CHECK(helper->pid() == first);
}

}  // namespace helper_lists_test
