// The numbers of previews that a start finds in the store.
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "core/store/sqlite_store.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace stored_previews_test {

using namespace atl;
using namespace atl::conversation;
using store::SqliteStore;

namespace {

std::unique_ptr<SqliteStore> open(const std::filesystem::path& file) {
    auto opened = SqliteStore::open(file);
    REQUIRE(opened);
    return std::move(*opened);
}

base::WallTime at(std::int64_t seconds) {
    return base::WallTime{std::chrono::seconds(seconds)};
}

/// The rows of conversations with a preview. `number` is the key of each and the number of its preview.
struct Rows {
    void add(std::uint16_t number, Status status, PauseReason reason, std::int64_t active_at) {
        conversation::Record record;
        record.key = number;
        record.id = "conversation" + std::to_string(number);
        record.agent = "shell";
        record.sandbox_id = "box" + std::to_string(number);
        record.status = status;
        record.reason = reason;
        record.last_active_at = at(active_at);
        sandbox::Record box;
        box.id = record.sandbox_id;
        box.conversation_id = record.id;
        writes.insert(writes.end(), {PutConversation{record}, PutSandbox{box},
                                     PutPreviewNumber{{number, box.id, 0, false}}});
    }
    void tell(std::uint16_t number, std::uint64_t seq, EventType type, std::int64_t when) {
        writes.emplace_back(AppendEvent{number, make_event(seq, type, at(when), 0, "{}")});
    }
    /// "NUMBER was up, NUMBER since SECONDS, "
    std::string found() const {
        const test::TempDir dir;
        REQUIRE(test::commit(*open(dir.path() / "db"), writes));
        const auto state = test::load_start(*open(dir.path() / "db"));
        REQUIRE(state);
        std::string text;
        for (const auto& each : state->resting_previews)
            text += std::to_string(each.number) +
                    (each.was_up
                         ? " was up, "
                         : " since " + std::to_string((each.since - at(0)) / std::chrono::seconds(1)) + ", ");
        return text;
    }
    std::vector<Write> writes;
};

}  // namespace

TEST_CASE("Numbers of previews come back, free where their sandbox is no more") {
    const test::TempDir dir;
    sandbox::Record present;
    present.id = "present";
    present.user_id = "ann";
    sandbox::Record gone;
    gone.id = "gone";
    gone.gone = true;
    REQUIRE(test::commit(
        *open(dir.path() / "db"),
        {PutSandbox{present}, PutSandbox{gone}, PutPreviewNumber{{30'001, "", 1, false}},
         PutPreviewNumber{{30'001, "present", 0, true}}, PutPreviewNumber{{30'002, "gone", 0, false}},
         PutPreviewNumber{{30'003, "never", 0, false}}, PutPreviewNumber{{39'999, "", 7, false}}}));
    const auto state = test::load_start(*open(dir.path() / "db"));
    REQUIRE(state);
    std::map<int, PreviewNumber> rows;
    for (const PreviewNumber& row : state->preview_numbers)
        rows[row.number] = row;
    REQUIRE(rows.size() == 4);
    CHECK(rows[30'001].sandbox_id == "present");
    CHECK(rows[30'001].is_stale);
    CHECK(rows[30'001].user_id == "ann");
    CHECK(rows[30'002].user_id == std::nullopt);
    CHECK(rows[30'002].sandbox_id.empty());
    CHECK(rows[30'003].sandbox_id.empty());
    CHECK(rows[39'999].freed == 7);
    CHECK(state->resting_previews.empty());
}

TEST_CASE("A start knows which previews were up and since when others rest, not those that ended") {
    Rows rows;
    rows.add(30'001, Status::paused, PauseReason::user, 50);
    rows.add(30'002, Status::paused, PauseReason::idle, 60);
    rows.add(30'003, Status::active, PauseReason::none, 20);
    rows.add(30'004, Status::starting, PauseReason::none, 10);
    rows.add(30'005, Status::ended, PauseReason::none, 90);
    CHECK(rows.found() == "30003 was up, 30004 was up, 30002 since 60, 30001 since 50, ");
}

TEST_CASE("A conversation that the end of a server paused rests since then, whatever the reason still says") {
    Rows rows;
    rows.add(30'001, Status::paused, PauseReason::server_restart, 10);
    rows.tell(30'001, 1, EventType::preview_changed, 5);
    rows.tell(30'001, 2, EventType::sandbox_paused, 40);
    rows.add(30'002, Status::paused, PauseReason::server_restart, 50);  // by a request since
    rows.tell(30'002, 7, EventType::sandbox_paused, 30);
    rows.add(30'003, Status::paused, PauseReason::server_restart, 20);  // no log is left of it
    rows.tell(30'004, 1, EventType::sandbox_paused, 99);                // of another log
    CHECK(rows.found() == "30002 since 50, 30001 since 40, 30003 since 20, ");
}

}  // namespace stored_previews_test
