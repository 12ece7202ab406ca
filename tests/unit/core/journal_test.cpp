#include "core/conversation/journal.hpp"

#include <catch2/catch_test_macros.hpp>

#include "journal_bench.hpp"
#include "tests/support/result_printer.hpp"

using namespace atl;
using namespace atl::conversation;

namespace {

struct Bench : test::JournalBench {
    void append(std::uint64_t seq, std::uint64_t turn = 1, EventType type = EventType::text_delta) {
        journal.add(AppendEvent{1, make_event(seq, type, base::WallTime{}, turn, "{}")});
    }
    std::size_t turns() const { return world.store.turns.size(); }
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
    SECTION("forgotten") {
        bench.journal.add(ForgetTurns{1, 5});
    }
    SECTION("erased") {
        bench.journal.add(EraseConversation{1});
    }
    bench.settle();
    bench.world.timers.fire_next();
    bench.settle();
    CHECK(bench.turns() == 0);
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
