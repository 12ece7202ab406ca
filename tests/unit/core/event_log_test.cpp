#include "core/conversation/event_log.hpp"

#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <string>

#include "core/base/limits.hpp"
#include "core/conversation/subscription.hpp"
#include "journal_bench.hpp"
#include "tests/support/result_printer.hpp"

namespace event_log_test {

using namespace atl;
using namespace atl::conversation;

namespace {

struct Bench : test::JournalBench {
    std::shared_ptr<EventLog> log;

    explicit Bench(std::size_t bound_bytes)
        : log(std::make_shared<EventLog>(journal, world.store, world.clock, 1, bound_bytes, "e1")) {}

    /// Also runs timers: the removal of rows goes on by them.
    void settle_all() {
        do
            settle();
        while (world.timers.fire_next());
    }
    std::size_t stored_bytes() const {
        return std::accumulate(
            world.store.events.begin(), world.store.events.end(), std::size_t{0},
            [](std::size_t sum, const auto& entry) { return sum + entry.second->json.size(); });
    }
};

const std::string k_data = R"({"detail":")" + std::string(100, 'x') + R"("})";

}  // namespace

TEST_CASE("event log: what happens without turns is bounded, too, and the newest of it is kept") {
    constexpr std::size_t k_bound = 32 * 1024;
    Bench bench(k_bound);
    std::uint64_t last = 0;
    for (int i = 0; i < 1000; ++i) {
        last = bench.log->append(EventType::sandbox_paused, 0, k_data)->seq;
        bench.settle_all();
        REQUIRE(bench.stored_bytes() <= k_bound + k_bound / 8);
    }
    CHECK(bench.stored_bytes() >= k_bound * 3 / 4);
    CHECK(bench.world.store.events.rbegin()->second->seq == last);
    const std::uint64_t first = bench.log->first_seq();
    CHECK(first > 1);
    CHECK(bench.world.store.events.begin()->second->seq == first);
    // A new reader begins there; a reader that is behind gets an error.
    Subscription fresh(bench.log->window(), 0);
    const auto batch = fresh.next(1024);
    REQUIRE(batch.has_value());
    CHECK(batch->events.front()->seq == first);
    Subscription behind(bench.log->window(), first - 2);
    const auto refused = behind.next(1024);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::seq_expired);
}

TEST_CASE("event log: a reader finds the epoch in session_start, live and stored, and the store has none") {
    Bench bench(1024 * 1024);
    bench.log->append(EventType::session_start, 0, R"({"agent":"shell"})");
    bench.log->append(EventType::sandbox_paused, 0, k_data);
    bench.settle_all();
    const auto first_of = [](const EventLog& log) {
        Subscription reader(log.window(), 0);
        return reader.next(1024)->events.front()->json;
    };
    const std::string told = R"("data":{"logEpoch":"e1","agent":"shell"}})";
    CHECK(first_of(*bench.log).ends_with(told));
    const std::string& stored = bench.world.store.events.begin()->second->json;
    CHECK(stored.ends_with(R"("data":{"agent":"shell"}})"));
    // A start of the server makes such a log from the store, with another epoch.
    const auto next =
        std::make_shared<EventLog>(bench.journal, bench.world.store, bench.world.clock, 1, 1024 * 1024, "e2");
    next->restore(1, 2);
    CHECK(first_of(*next).ends_with(R"("data":{"logEpoch":"e2","agent":"shell"}})"));
}

TEST_CASE("event log: a cursor of another epoch, or beyond the end, gets no reader") {
    Bench bench(1024 * 1024);
    for (int i = 0; i < 3; ++i)
        bench.log->append(EventType::sandbox_paused, 0, k_data);
    bench.settle_all();
    for (const Cursor& good : {Cursor{0, {}}, Cursor{0, "e0"}, Cursor{2, {}}, Cursor{3, "e1"}})
        CHECK(bench.log->subscribe(good));
    for (const Cursor& bad : {Cursor{4, {}}, Cursor{4, "e1"}, Cursor{2, "e0"}}) {
        const auto refused = bench.log->subscribe(bad);
        CHECK(refused.error().code() == base::Errc::log_replaced);
        CHECK(refused.error().members() == base::Error::Members{{"logEpoch", "\"e1\""}, {"firstSeq", "1"}});
    }
}

TEST_CASE("event log: a step of reading has so many events at most, however short they are") {
    Bench bench(1024 * 1024);
    for (int i = 0; i < 20; ++i)
        bench.log->append(EventType::sandbox_paused, 0, "{}");
    bench.settle_all();
    Subscription reader(bench.log->window(), 0);
    const auto batch = reader.next(4 * base::k_least_event_cost_bytes);
    REQUIRE(batch.has_value());
    CHECK(batch->events.size() == 4);
}

TEST_CASE("event log: an open turn is not cut, whatever happens in it") {
    constexpr std::size_t k_bound = 32 * 1024;
    Bench bench(k_bound);
    for (int i = 0; i < 500; ++i)
        bench.log->append(EventType::text_delta, 1, k_data);
    bench.settle_all();
    CHECK(bench.log->first_seq() == 1);
    CHECK(bench.log->close_turn() > k_bound);
    bench.settle_all();
    CHECK(bench.log->first_seq() == 1);  // the newest turn stays
    bench.log->append(EventType::text_delta, 2, k_data);
    bench.log->close_turn();
    bench.settle_all();
    CHECK(bench.log->first_seq() == 501);
    CHECK(bench.world.store.events.size() == 1);
}

}  // namespace event_log_test
