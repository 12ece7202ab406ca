// The order in which questions of users go to the helper that reads many rows.
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/limits.hpp"
#include "core/store/list_reads.hpp"
#include "core/store/sqlite_store.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/support/list_reading.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace list_turns_test {

using namespace atl;
using namespace atl::conversation;
using namespace std::chrono_literals;
using base::Errc;
using store::SqliteStore;

namespace {

/// A store with one conversation of each user, which another process reads.
struct Bench {
    Bench() {
        auto opened = SqliteStore::open(file);
        REQUIRE(opened);
        store = std::move(*opened);
        std::int64_t key = 0;
        for (const char* const user : {"ann", "bob"}) {
            Record record;
            record.key = ++key;
            record.id = std::string("of ") + user;
            record.sandbox_id = std::string("box of ") + user;
            record.user_id = user;
            sandbox::Record box;
            box.id = record.sandbox_id;
            box.conversation_id = record.id;
            REQUIRE(test::commit(*store, {PutConversation{record}, PutSandbox{box}}));
        }
        reads.emplace(timers, helper, *store, file);
    }
    void list(const std::string& user) {
        ListRange range;
        range.filter.user_id = user;
        store->list(range, [this, user](const base::Result<ConversationList>& listed) {
            note("list " + user, listed ? std::nullopt : std::optional(listed.error()));
        });
    }
    void load(const std::string& user) {
        store->load("of " + user, [this, user](const base::Result<std::optional<StoredConversation>>& found) {
            note("load " + user, found ? std::nullopt : std::optional(found.error()));
        });
    }
    void note(std::string question, const std::optional<base::Error>& error) {
        error ? refused.push_back(*error) : answered.push_back(std::move(question));
    }

    test::TempDir dir;
    std::filesystem::path file = dir.path() / "db";
    std::unique_ptr<SqliteStore> store;
    test::FakeClock clock;
    test::FakeTimers timers{clock};
    test::ListReading helper;
    std::optional<store::ListReads> reads;
    std::vector<std::string> answered;
    std::vector<base::Error> refused;
};

}  // namespace

TEST_CASE("Users take turns with their lists, and loads go before them") {
    Bench bench;
    for (int i = 0; i < 40; ++i)
        bench.list("ann");
    bench.list("bob");
    bench.load("bob");
    bench.helper.answer_all();
    REQUIRE(bench.answered.size() == 42);
    // The first one was asked before the others came.
    CHECK(bench.answered[0] == "list ann");
    CHECK(bench.answered[1] == "load bob");
    CHECK(bench.answered[2] == "list bob");
    CHECK(bench.refused.empty());
}

TEST_CASE("A list waits for a few loads, however many there are") {
    Bench bench;
    for (std::size_t i = 0; i < 3 * base::k_loads_before_list; ++i)
        bench.load("ann");
    bench.list("bob");
    bench.helper.answer_all();
    REQUIRE(bench.answered.size() == 3 * base::k_loads_before_list + 1);
    CHECK(bench.answered[base::k_loads_before_list] == "list bob");
}

TEST_CASE("A user with many questions that wait is refused more of them, another one is not") {
    Bench bench;
    // The first one waits no longer.
    for (std::size_t i = 0; i <= base::k_waiting_lists_of_user; ++i)
        bench.list("ann");
    CHECK(bench.refused.empty());
    bench.list("ann");
    REQUIRE(bench.refused.size() == 1);
    CHECK(bench.refused[0].code() == Errc::too_many_requests);
    CHECK(bench.refused[0].retry_after() == 1s);
    bench.list("bob");
    bench.load("ann");
    CHECK(bench.refused.size() == 1);
    for (std::size_t i = 0; i < base::k_waiting_loads_of_user; ++i)
        bench.load("ann");
    CHECK(bench.refused.size() == 1);
    bench.load("ann");
    CHECK(bench.refused.size() == 2);
    bench.helper.answer_all();
    CHECK(bench.answered.size() == base::k_waiting_lists_of_user + base::k_waiting_loads_of_user + 3);
    bench.list("ann");
    CHECK(bench.refused.size() == 2);
}

TEST_CASE("Questions that wait are refused at once while the helper cannot be started") {
    Bench bench;
    bench.helper.is_dead = true;
    bench.list("ann");
    bench.list("ann");
    bench.load("bob");
    // It died of one alone.
    bench.helper.answer_one();
    CHECK(bench.refused.size() == 1);
    bench.helper.is_away = true;
    bench.helper.answer_one();
    REQUIRE(bench.refused.size() == 3);
    CHECK(bench.refused[2].code() == Errc::storage_failed);
    // The next ones are asked again.
    bench.helper.is_dead = bench.helper.is_away = false;
    bench.list("ann");
    bench.helper.answer_all();
    CHECK(bench.answered == std::vector<std::string>{"list ann"});
}

}  // namespace list_turns_test
