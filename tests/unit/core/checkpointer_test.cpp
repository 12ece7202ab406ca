// When the log is written back, over a helper that answers when the test says so. With the real helper:
// fs_guard_test.cpp.
#include "core/store/checkpointer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "../isolation/fixture.hpp"
#include "tests/support/fake_world.hpp"

namespace checkpointer_test {

namespace {

using namespace atl;
using store::Checkpointer;

struct FakeHelper final : store::CheckpointHelper {
    struct Request {
        std::string what;
        Done done;
    };
    std::deque<Request> requests;

    void sync_log(const std::filesystem::path&, Done done) override {
        requests.push_back({"sync_log", std::move(done)});
    }
    void checkpoint(const std::filesystem::path&, Done done) override {
        requests.push_back({"checkpoint", std::move(done)});
    }
    std::string next() const { return requests.empty() ? "" : requests.front().what; }
    void answer(base::Result<void> result) {
        const auto done = std::move(requests.front().done);
        requests.pop_front();
        done(std::move(result));
    }
};

const base::Error k_failed(base::Errc::storage_failed, "the helper died");

struct Bench {
    explicit Bench(Checkpointer::Bounds bounds) {
        checkpointer.emplace(world.timers, helper, *database, journal, folder / "test.db", bounds);
    }
    /// False: it waits, since commits are held.
    bool commit() {
        const auto done = std::make_shared<bool>(false);
        journal.add(conversation::AppendEvent{
            1, conversation::make_event(++seq, conversation::EventType::text_delta, base::WallTime{}, 1,
                                        "{\"delta\":\"" + std::string(2000, 'x') + "\"}")});
        journal.after_commit([done] { *done = true; });
        while (world.timers.run_deferred()) {
        }
        return *done;
    }

    test::TempFolder folder;
    test::FakeWorld world{1};
    std::unique_ptr<store::SqliteStore> database = store::SqliteStore::open(folder / "test.db").value();
    conversation::Journal journal{*database, world.timers};
    FakeHelper helper;
    std::optional<Checkpointer> checkpointer;
    std::uint64_t seq = 0;
};

constexpr std::uintmax_t k_never = 1UL << 40;

}  // namespace

TEST_CASE("checkpointer: a log that is short is left alone") {
    Bench bench({k_never, k_never});
    CHECK(bench.commit());
    CHECK(bench.world.timers.armed() == 0);
    CHECK(bench.helper.next().empty());
}

TEST_CASE("checkpointer: a log that is due is synced and then written back while commits go on") {
    Bench bench({1, k_never});
    CHECK(bench.commit());
    CHECK(bench.helper.next().empty());  // not from inside the commit
    REQUIRE(bench.world.timers.fire_next());
    REQUIRE(bench.helper.next() == "sync_log");
    CHECK(bench.commit());
    CHECK(bench.helper.requests.size() == 1);  // one round at a time
    bench.helper.answer({});
    REQUIRE(bench.helper.next() == "checkpoint");
    CHECK(bench.commit());
    bench.helper.answer({});
    CHECK(bench.checkpointer->rounds() == 1);
    CHECK(bench.checkpointer->held_rounds() == 0);
    CHECK(bench.commit());
    CHECK(bench.helper.next().empty());  // rests first
    REQUIRE(bench.world.timers.fire_next());
    CHECK(bench.commit());
    REQUIRE(bench.world.timers.fire_next());
    CHECK(bench.helper.next() == "sync_log");
}

TEST_CASE("checkpointer: a log beyond its bound is written back while commits are held, and only so long") {
    Bench bench({1, 2});
    CHECK(bench.commit());
    REQUIRE(bench.world.timers.fire_next());
    bench.helper.answer({});
    bench.helper.answer({});
    REQUIRE(bench.helper.next() == "checkpoint");  // the second pass
    bool done = false;
    bench.journal.add(conversation::AppendEvent{
        1, conversation::make_event(++bench.seq, conversation::EventType::done, base::WallTime{}, 1, "{}")});
    bench.journal.after_commit([&done] { done = true; });
    while (bench.world.timers.run_deferred()) {
    }
    CHECK_FALSE(done);

    SECTION("until the pass is over") {
        bench.helper.answer({});
        CHECK(bench.checkpointer->held_rounds() == 1);
    }
    SECTION("until the pass has failed") {
        bench.helper.answer(k_failed);
        CHECK(bench.checkpointer->held_rounds() == 1);
    }
    SECTION("until the longest hold is over") {
        REQUIRE(bench.world.timers.fire_next());
        CHECK(bench.checkpointer->held_rounds() == 0);
    }
    SECTION("until the checkpointer is gone") {
        bench.checkpointer.reset();
    }
    while (bench.world.timers.run_deferred()) {
    }
    CHECK(done);
}

TEST_CASE("checkpointer: after a failed round it rests and then tries again") {
    Bench bench({1, 2});
    CHECK(bench.commit());
    REQUIRE(bench.world.timers.fire_next());
    bench.helper.answer(k_failed);  // what could not be synced may still be written back
    REQUIRE(bench.helper.next() == "checkpoint");
    bench.helper.answer(k_failed);
    CHECK(bench.commit());
    CHECK(bench.helper.next().empty());
    REQUIRE(bench.world.timers.fire_next());
    CHECK(bench.commit());
    REQUIRE(bench.world.timers.fire_next());
    CHECK(bench.helper.next() == "sync_log");
}

TEST_CASE("checkpointer: a short log is written back when a commit is refused, once until one is not") {
    Bench bench({k_never, k_never});
    const auto be_refused = [&bench] {
        --bench.seq;  // an event of this number is there already
        return !bench.commit();
    };
    CHECK(bench.commit());
    CHECK(be_refused());
    CHECK(bench.helper.next().empty());  // not from inside the commit
    REQUIRE(bench.world.timers.fire_next());
    REQUIRE(bench.helper.next() == "sync_log");
    bench.helper.answer({});
    REQUIRE(bench.helper.next() == "checkpoint");
    bench.helper.answer({});
    CHECK(bench.checkpointer->rounds() == 1);
    CHECK(bench.checkpointer->held_rounds() == 0);
    REQUIRE(bench.world.timers.fire_next());  // it has rested
    REQUIRE(bench.world.timers.fire_next());  // the journal's next attempt
    CHECK_FALSE(bench.journal.healthy());
    CHECK(bench.helper.next().empty());

    REQUIRE(bench.database->purge_log(1, bench.seq + 1, {1, 1}).has_value());
    REQUIRE(bench.world.timers.fire_next());
    REQUIRE(bench.journal.healthy());
    CHECK(be_refused());
    REQUIRE(bench.world.timers.fire_next());
    CHECK(bench.helper.next() == "sync_log");
}

}  // namespace checkpointer_test
