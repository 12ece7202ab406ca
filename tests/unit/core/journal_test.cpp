#include "core/conversation/journal.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "journal_bench.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/result_printer.hpp"

namespace journal_test {

using namespace atl;
using namespace atl::conversation;

namespace {

struct Bench : test::JournalBench {
    void append(std::uint64_t seq, std::uint64_t turn = 1, EventType type = EventType::text_delta) {
        journal.add(AppendEvent{1, make_event(seq, type, base::WallTime{}, turn, "{}")});
    }
    std::size_t turns() const { return world.store.turns.size(); }

    /// From now on the store answers when the test says.
    void answer_later() {
        world.store.later = [this](std::function<void()> answer) { world.later(std::move(answer)); };
    }
    void wait_for_commit() {
        journal.after_commit([this] { ++told; });
    }
    int told = 0;  // that all they waited for is committed
};

TurnRecord turn(std::uint64_t number, std::uint64_t last_seq = 0) {
    return TurnRecord{1, number, "", "", 1, last_seq, 0};
}

}  // namespace

TEST_CASE("A turn's lazy record does not go with the events, but soon after, and once") {
    Bench bench;
    bench.journal.add_lazily(PutTurn{turn(1)});
    bench.append(1);
    CHECK(bench.journal.pending() == 2);
    bench.settle();
    CHECK(bench.journal.pending() == 1);
    CHECK(bench.world.store.events.size() == 1);
    CHECK(bench.turns() == 0);
    bench.journal.add_lazily(PutTurn{turn(1, 1)});
    REQUIRE(bench.world.timers.fire_next());
    bench.settle();
    REQUIRE(bench.turns() == 1);
    CHECK(bench.world.store.turns.begin()->second.last_seq == 1);
    CHECK(bench.journal.idle());
    CHECK_FALSE(bench.world.timers.fire_next());
}

TEST_CASE(
    "An answer does not wait for a store that refuses: it is told to be late, once, and the commit follows") {
    Bench bench;
    bool full = true;
    bench.world.store.fails = [&] { return full; };
    int done = 0;
    int late = 0;
    bench.append(1);
    bench.journal.answer_after_commit([&] { ++done; }, [&] { ++late; });
    bench.wait_for_commit();
    bench.settle();
    const auto begun = bench.world.clock.steady_now();
    while (late == 0 && bench.world.timers.fire_next())
        bench.settle();
    CHECK(late == 1);
    CHECK(bench.world.clock.steady_now() - begun <= Journal::k_answer_deadline);
    CHECK(done == 0);
    // An answer that is asked for later is late, too.
    bench.journal.answer_after_commit([&] { ++done; }, [&] { ++late; });
    while (late == 1 && bench.world.timers.fire_next())
        bench.settle();
    CHECK(late == 2);
    full = false;
    while (done < 2 && bench.world.timers.fire_next())
        bench.settle();
    CHECK(done == 2);
    CHECK(late == 2);
    CHECK(bench.told == 1);
    while (bench.world.timers.fire_next())
        bench.settle();
    CHECK(late == 2);
}

TEST_CASE("An answer does not wait for a store that does not answer") {
    Bench bench;
    std::vector<std::function<void()>> kept;
    bench.world.store.later = [&](std::function<void()> answer) { kept.push_back(std::move(answer)); };
    int done = 0;
    int late = 0;
    bench.append(1);
    bench.journal.answer_after_commit([&] { ++done; }, [&] { ++late; });
    bench.settle();
    REQUIRE(kept.size() == 1);
    while (late == 0 && bench.world.timers.fire_next())
        bench.settle();
    CHECK(late == 1);
    kept.front()();
    bench.settle();
    CHECK(done == 1);
}

TEST_CASE("Commits are counted when they end, before those who wait are told, and refusals apart") {
    Bench bench;
    const JournalStats& stats = bench.journal.stats();
    bool full = true;
    bench.world.store.fails = [&] { return full; };
    std::uint64_t counted_when_told = 0;
    bench.append(1);
    bench.journal.after_commit([&] { counted_when_told = stats.commit_duration.count(); });
    bench.settle();
    CHECK(stats.refused_commits == 1);
    CHECK(stats.events[EventType::text_delta] == 0);
    full = false;
    std::function<void()> answer;
    bench.world.store.later = [&](std::function<void()> given) { answer = std::move(given); };
    REQUIRE(bench.world.timers.fire_next());
    bench.settle();
    REQUIRE(answer != nullptr);
    CHECK(stats.commit_duration.count() == 0);
    CHECK(stats.event_bytes == 0);
    answer();
    CHECK(counted_when_told == 1);
    CHECK(stats.refused_commits == 1);
    CHECK(stats.events[EventType::text_delta] == 1);
    CHECK(stats.events[EventType::done] == 0);
    CHECK(stats.event_bytes == make_event(1, EventType::text_delta, base::WallTime{}, 1, "{}")->json.size());
}

TEST_CASE("A record that somebody waits for replaces a lazy one") {
    Bench bench;
    bench.journal.add_lazily(PutTurn{turn(1)});
    bench.journal.add(PutTurn{turn(1, 5)});
    bench.settle();
    CHECK(bench.world.store.turns.begin()->second.last_seq == 5);
    bench.world.timers.fire_next();
    bench.settle();
    CHECK(bench.world.store.turns.begin()->second.last_seq == 5);
}

TEST_CASE("A record that is still to be written does not outlive its turn or its conversation") {
    Bench bench;
    bench.journal.add_lazily(PutTurn{turn(1, 5)});
    std::size_t left = 0;
    SECTION("cut") {
        bench.journal.add(PutTurn{turn(2, 9)});
        bench.journal.purge(1, 6);
        left = 1;
    }
    SECTION("erased") {
        bench.journal.add(EraseConversation{1});
        bench.journal.purge(1);
    }
    bench.settle();
    CHECK(bench.journal.idle());
    while (bench.world.timers.fire_next())
        bench.settle();
    CHECK(bench.turns() == left);
}

TEST_CASE("The share of a log that is erased is held until its events are gone") {
    base::Budget budget({"things", "things", "Give some back.", 1000, 10, {}});
    Bench bench;
    bench.journal.purge(
        1, Journal::k_whole_log,
        std::make_shared<const base::Share>(budget.take(base::ShareHolder::user("ann"), 100).value()));
    bench.settle();
    CHECK(budget.used() == 100);
    while (bench.world.timers.fire_next())
        bench.settle();
    CHECK(budget.used() == 0);
}

TEST_CASE("A long log that is erased goes a few rows at a time, its turns too, and the rest after a crash") {
    Bench bench;
    constexpr std::uint64_t k_turns = 1000;
    for (std::uint64_t number = 1; number <= k_turns; ++number) {
        bench.append(number, number);
        bench.journal.add(PutTurn{turn(number, number)});
    }
    bench.settle();
    REQUIRE(bench.turns() == k_turns);
    const auto rows = [&bench] { return bench.turns() + bench.world.store.events.size(); };
    bench.journal.add(EraseConversation{1});
    bench.journal.purge(1);
    bench.settle();
    std::size_t most = 0;
    while (bench.turns() > k_turns / 2) {
        const std::size_t before = rows();
        REQUIRE(bench.world.timers.fire_next());
        bench.settle();
        most = std::max(most, before - rows());
    }
    CHECK(most > 0);
    CHECK(most <= 100);

    // The next server is told of what is left.
    const auto left = test::load_start(bench.world.store)->left_events;
    REQUIRE(left.size() == 1);
    Journal next(bench.world.store, bench.world.timers);
    bench.world.timers.clear();
    next.purge(left.front().key, left.front().below_seq);
    bench.settle();
    while (bench.world.timers.fire_next())
        bench.settle();
    CHECK(rows() == 0);
    CHECK(test::load_start(bench.world.store)->left_events.empty());
}

TEST_CASE("A log of large events is purged some hundred kilobytes at a time") {
    Bench bench;
    const std::string data = R"({"delta":")" + std::string(100'000, 'x') + R"("})";
    for (std::uint64_t seq = 1; seq <= 50; ++seq)
        bench.journal.add(AppendEvent{1, make_event(seq, EventType::text_delta, base::WallTime{}, 1, data)});
    bench.settle();
    const auto& events = bench.world.store.events;
    REQUIRE(events.size() == 50);
    bench.journal.purge(1);
    bench.settle();
    std::size_t most = 0;
    while (!events.empty()) {
        const std::size_t before = events.size();
        REQUIRE(bench.world.timers.fire_next());
        bench.settle();
        most = std::max(most, before - events.size());
    }
    CHECK(most > 1);
    CHECK(most * data.size() <= 512UL * 1024);
}

TEST_CASE("While commits are held nothing is purged; then the rest is") {
    Bench bench;
    for (std::uint64_t seq = 1; seq <= 200; ++seq)
        bench.append(seq);
    bench.settle();
    const auto& events = bench.world.store.events;
    REQUIRE(events.size() == 200);
    bench.journal.purge(1);
    bench.settle();
    REQUIRE(bench.world.timers.fire_next());
    const std::size_t left = events.size();
    REQUIRE(left > 0);
    REQUIRE(left < 200);
    const auto settle_all = [&bench] {
        do
            bench.settle();
        while (bench.world.timers.fire_next());
    };
    bench.journal.hold();
    settle_all();
    CHECK(events.size() == left);
    bench.journal.release();
    settle_all();
    CHECK(events.empty());
}

TEST_CASE("What the store would not purge is tried again later, and holds up nothing else") {
    Bench bench;
    bench.append(1);
    bench.journal.add(AppendEvent{2, make_event(1, EventType::text_delta, base::WallTime{}, 1, "{}")});
    bench.journal.purge(1);
    bench.journal.purge(2);
    bench.world.store.purge_fails = [failed = 0]() mutable { return failed++ == 0; };
    bench.settle();
    REQUIRE(bench.world.store.events.size() == 2);
    const auto settle = [&bench] { bench.settle(); };
    bench.world.timers.advance(base::Millis{1'000}, settle);
    REQUIRE(bench.world.store.events.size() == 1);
    CHECK(bench.world.store.events.begin()->first.first == 1);
    bench.world.timers.advance(base::Millis{120'000}, settle);
    CHECK(bench.world.store.events.empty());
}

TEST_CASE("What is lazy is written by a flush") {
    Bench bench;
    bench.journal.add_lazily(PutTurn{turn(1)});
    bool flushed = false;
    bench.journal.flush([&](const base::Result<void>& result) { flushed = result.has_value(); });
    REQUIRE(flushed);
    CHECK(bench.turns() == 1);
}

TEST_CASE("While commits are held nothing is committed and nobody is told; then all of it is") {
    Bench bench;
    bool told = false;
    bench.journal.hold();
    bench.append(1);
    bench.journal.after_commit([&] { told = true; });
    bench.settle();
    CHECK(bench.world.store.events.empty());
    CHECK_FALSE(told);
    CHECK(bench.journal.healthy());
    bench.journal.release();
    bench.append(2);
    bench.settle();
    CHECK(bench.world.store.events.size() == 2);
    CHECK(told);
    bench.journal.hold();
    bench.journal.release();
    CHECK_FALSE(bench.world.timers.run_deferred());
}

TEST_CASE("A batch that is full says so until it is committed") {
    Bench bench;
    SECTION("of many events") {
        bench.journal.hold();
        std::uint64_t seq = 0;
        while (!bench.journal.congested() && seq < 10'000)
            bench.append(++seq);
        CHECK(seq >= 64);
        CHECK(seq <= 1000);
        // Only callers that can wait ask congested(); all others may still append.
        bench.append(++seq);
        bench.settle();
        CHECK(bench.journal.congested());
        bench.journal.release();
        bench.settle();
        CHECK(bench.world.store.events.size() == seq);
    }
    SECTION("of large ones") {
        const std::string data = R"({"delta":")" + std::string(200'000, 'x') + R"("})";
        for (std::uint64_t seq = 1; seq <= 2; ++seq) {
            CHECK_FALSE(bench.journal.congested());
            bench.journal.add(
                AppendEvent{1, make_event(seq, EventType::text_delta, base::WallTime{}, 1, data)});
        }
        CHECK(bench.journal.congested());
        bench.settle();
    }
    CHECK_FALSE(bench.journal.congested());
}

TEST_CASE(
    "A batch that the store refuses is tried again as it was; what is added meanwhile is the next one") {
    Bench bench;
    int refusals = 0;
    bench.journal.on_refusal([&] { ++refusals; });
    bench.world.store.fails = [] { return true; };
    bench.append(1);
    bench.wait_for_commit();
    const auto batch = bench.journal.batch_number();
    bench.settle();
    CHECK(refusals == 1);
    CHECK(bench.told == 0);
    CHECK_FALSE(bench.journal.healthy());
    CHECK(bench.journal.batch_number() == batch + 1);
    bench.append(2);
    bench.wait_for_commit();
    bench.settle();
    CHECK(refusals == 1);  // nothing is tried before the time for it has come
    bench.world.store.fails = [] { return false; };
    REQUIRE(bench.world.timers.fire_next());
    CHECK(bench.world.store.events.size() == 1);
    CHECK(bench.journal.is_committed(batch));
    CHECK(bench.told == 1);
    CHECK(bench.journal.healthy());
    bench.settle();
    CHECK(bench.world.store.events.size() == 2);
    CHECK(bench.told == 2);
    CHECK(bench.journal.idle());
}

TEST_CASE("Nobody is told before a store that answers later has answered, and one batch is there at a time") {
    Bench bench;
    bench.answer_later();
    bench.append(1);
    bench.wait_for_commit();
    const auto batch = bench.journal.batch_number();
    bench.settle();
    REQUIRE(bench.world.pending.size() == 1);
    CHECK(bench.told == 0);
    bench.append(2);
    bench.append(3);
    bench.wait_for_commit();
    bool flushed = false;
    bench.journal.flush([&](const base::Result<void>& result) { flushed = result.has_value(); });
    bench.settle();
    CHECK(bench.world.pending.size() == 1);
    CHECK(bench.journal.pending() == 3);
    CHECK_FALSE(bench.journal.is_committed(batch));
    REQUIRE(bench.world.run_pending());
    CHECK(bench.journal.is_committed(batch));
    CHECK(bench.told == 1);
    CHECK_FALSE(flushed);
    CHECK(bench.journal.pending() == 2);
    REQUIRE(bench.world.run_pending());
    CHECK(bench.told == 2);
    CHECK(flushed);
    CHECK(bench.journal.idle());
    CHECK(bench.world.store.events.size() == 3);
}

TEST_CASE("A batch that is refused later is tried again") {
    Bench bench;
    bench.answer_later();
    bench.world.store.fails = [] { return true; };
    bench.append(1);
    bench.wait_for_commit();
    bench.settle();
    CHECK(bench.journal.healthy());  // nothing is known yet
    REQUIRE(bench.world.run_pending());
    CHECK_FALSE(bench.journal.healthy());
    bench.world.store.fails = [] { return false; };
    REQUIRE(bench.world.timers.fire_next());
    CHECK(bench.told == 0);
    REQUIRE(bench.world.run_pending());
    CHECK(bench.told == 1);
    CHECK(bench.journal.healthy());
}

TEST_CASE("A store that another server has taken over is not asked again, and nobody is told") {
    Bench bench;
    bool is_late = false;
    SECTION("told at once") {}
    SECTION("told later") {
        is_late = true;
        bench.answer_later();
    }
    bench.world.store.is_fenced = true;
    bench.append(1);
    bench.wait_for_commit();
    bench.settle();
    CHECK(bench.world.run_pending() == is_late);
    CHECK(bench.journal.is_fenced());
    CHECK(bench.journal.usable().error().code() == base::Errc::storage_failed);
    CHECK(bench.world.timers.armed() == 0);
    // Not even if it would take writes again.
    bench.world.store.is_fenced = false;
    bench.append(2);
    bench.wait_for_commit();
    std::optional<base::Result<void>> flushed;
    bench.journal.flush([&](base::Result<void> result) { flushed = std::move(result); });
    bench.settle();
    REQUIRE(flushed.has_value());
    CHECK(flushed->has_error());
    CHECK(bench.world.pending.empty());
    CHECK(bench.world.store.events.empty());
    CHECK(bench.told == 0);
}

TEST_CASE("The answer to a journal that is gone reaches nobody") {
    test::FakeWorld world{1};
    world.store.later = [&world](std::function<void()> answer) { world.later(std::move(answer)); };
    int told = 0;
    {
        Journal journal(world.store, world.timers);
        journal.after_commit([&told] { ++told; });
        journal.add(EraseSandbox{"a"});
        REQUIRE(world.timers.run_deferred());
    }
    REQUIRE(world.run_pending());
    CHECK(told == 0);
}

}  // namespace journal_test
