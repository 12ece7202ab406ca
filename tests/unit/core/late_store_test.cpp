// Readers and messages over a store that answers its reads later.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <deque>
#include <numeric>
#include <optional>

#include "core/conversation/event_log.hpp"
#include "core/conversation/subscription.hpp"
#include "house.hpp"
#include "journal_bench.hpp"
#include "tests/support/result_printer.hpp"

namespace late_store_test {

using namespace atl;
using namespace atl::conversation;

namespace {

constexpr std::size_t k_no_limit = 1'000'000;

/// The answers of a store that are still to come, in the order of the calls.
struct Answers {
    explicit Answers(test::FakeStore& store) {
        store.later = [this](std::function<void()> answer) { waiting.push_back(std::move(answer)); };
    }
    void give(std::size_t which = 0) {
        REQUIRE(which < waiting.size());
        const auto at = waiting.begin() + static_cast<std::ptrdiff_t>(which);
        const auto answer = std::move(*at);
        waiting.erase(at);
        answer();
    }
    std::deque<std::function<void()>> waiting;
};

/// The log of a conversation of which the store holds some events and the window none.
struct LogBench : test::JournalBench {
    explicit LogBench(std::size_t stored, std::size_t bound_bytes = k_no_limit)
        : log(std::make_shared<EventLog>(journal, world.store, world.clock, 1, bound_bytes)) {
        for (std::uint64_t seq = 1; seq <= stored; ++seq)
            world.store.events[{1, seq}] = make_event(seq, EventType::text_delta, {}, 1, "{}");
        log->restore(1, stored);
        const bool reads_first = GENERATE(true, false);
        world.store.reads_first = [reads_first] { return reads_first; };
    }
    void append() { log->append(EventType::text_delta, 2, "{}"); }
    /// The log now begins at event 6, and the rows before it are gone.
    void cut() {
        world.store.later = nullptr;
        log->restore_turn(5, 2 * k_no_limit);
        log->restore_turn(log->last_seq(), 1);
        append();
        log->close_turn();
        do
            settle();
        while (world.timers.fire_next());
        REQUIRE(log->first_seq() == 6);
        REQUIRE(world.store.events.begin()->first.second == 6);
    }

    Answers answers{world.store};
    std::shared_ptr<EventLog> log;
};

/// A reader as HTTP has them: it reads on whenever it is woken.
struct Reader {
    Reader(const EventLog& log, std::uint64_t after) : subscription(std::in_place, log.window(), after) {
        subscription->on_wake([this] {
            ++wakes;
            is_woken = true;
        });
    }
    /// Reads all there is now.
    void read(std::size_t limit_bytes = k_no_limit) {
        while (std::exchange(is_woken, false)) {
            auto batch = subscription->next(limit_bytes);
            if (!batch) {
                error = batch.error().code();
                return;
            }
            for (const auto& event : batch->events)
                seqs.push_back(event->seq);
            is_gone = batch->gone;
            is_reading = batch->reading;
            is_woken = !batch->events.empty();
        }
    }
    std::optional<Subscription> subscription;
    std::vector<std::uint64_t> seqs;
    std::size_t wakes = 0;
    bool is_woken = true;
    bool is_gone = false;
    bool is_reading = false;
    std::optional<base::Errc> error;
};

std::vector<std::uint64_t> from_to(std::uint64_t first, std::uint64_t last) {
    std::vector<std::uint64_t> seqs(last + 1 - first);
    std::iota(seqs.begin(), seqs.end(), first);
    return seqs;
}

}  // namespace

TEST_CASE("late store: a reader gets what the store answers, then what was committed meanwhile, each once") {
    LogBench bench(5);
    Reader reader(*bench.log, 0);
    reader.read();
    CHECK(reader.is_reading);
    CHECK(reader.seqs.empty());
    REQUIRE(bench.answers.waiting.size() == 1);
    bench.append();
    bench.append();
    bench.settle();
    REQUIRE(bench.answers.waiting.size() == 2);  // the read, and the commit
    SECTION("the store answers first") {
        bench.answers.give(0);
        REQUIRE(reader.wakes == 1);
        reader.read();
        CHECK(reader.seqs == from_to(1, 5));
        bench.answers.give(0);
        CHECK(reader.wakes == 2);
    }
    SECTION("the commit ends first") {
        bench.answers.give(1);
        // It may ask again, and is told to wait: it does not get the new ones before the old ones.
        reader.read();
        CHECK(reader.is_reading);
        CHECK(reader.seqs.empty());
        REQUIRE(bench.answers.waiting.size() == 1);  // the same read
        const auto wakes = reader.wakes;
        bench.answers.give(0);
        CHECK(reader.wakes == wakes + 1);
    }
    reader.read();
    CHECK(reader.seqs == from_to(1, 7));
    CHECK(bench.answers.waiting.empty());
    CHECK_FALSE(reader.is_reading);
}

TEST_CASE("late store: a reader whose store answers one event at a time misses none at the window's edge") {
    LogBench bench(5);
    Reader reader(*bench.log, 2);
    reader.read(1);
    for (std::uint64_t seq = 3; seq <= 5; ++seq) {
        bench.append();
        bench.settle();
        REQUIRE(bench.answers.waiting.size() == 2);
        bench.answers.give(1);
        bench.answers.give(0);
        reader.read(1);
    }
    CHECK(reader.seqs == from_to(3, 8));
    CHECK(bench.answers.waiting.empty());
}

TEST_CASE("late store: an answer that nobody waits for is dropped") {
    LogBench bench(5);
    Reader reader(*bench.log, 0);
    reader.read();
    reader.subscription.reset();
    bench.log.reset();
    bench.answers.give();
    CHECK(reader.wakes == 0);
}

TEST_CASE(
    "late store: a log that is cut during a read ends a reader inside, and one of the whole log goes on") {
    LogBench bench(9);
    Reader inside(*bench.log, 2);
    Reader whole(*bench.log, 0);
    inside.read();
    whole.read();
    REQUIRE(bench.answers.waiting.size() == 2);
    bench.cut();
    bench.answers.give();
    bench.answers.give();
    inside.read();
    CHECK(inside.error == base::Errc::seq_expired);
    CHECK(inside.seqs.empty());
    whole.read();
    CHECK_FALSE(whole.error);
    CHECK(whole.seqs == from_to(6, 10));
}

TEST_CASE("late store: a reader of the whole log need not wait for what was cut off meanwhile") {
    LogBench bench(9);
    Reader reader(*bench.log, 0);
    reader.read();
    bench.cut();
    CHECK(reader.wakes == 1);
    reader.read();
    CHECK(reader.seqs == from_to(6, 10));
    const auto wakes = reader.wakes;
    bench.answers.give();
    CHECK(reader.wakes == wakes);
}

TEST_CASE("late store: a reader of a conversation that is removed during the read is told so") {
    LogBench bench(5);
    Reader reader(*bench.log, 0);
    reader.read();
    bench.log->close();
    bench.log.reset();
    bench.world.store.events.clear();
    reader.read();
    CHECK(reader.is_reading);
    bench.answers.give();
    reader.read();
    CHECK(reader.is_gone);
    CHECK_FALSE(reader.error);
    CHECK((reader.seqs.empty() || reader.seqs == from_to(1, 5)));
}

TEST_CASE("late store: two changes of different limits of a sandbox hold, the first not yet committed") {
    test::House house({});
    const auto made = house.answer<SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
    REQUIRE(made);
    const std::string id = made->record.id;
    Answers answers(house.world.store);
    SandboxPatch memory;
    memory.limits.emplace().memory_mb = 300;
    SandboxPatch processes;
    processes.limits.emplace().max_processes = 10;
    int answered = 0;
    for (const auto& change : {memory, processes}) {
        house.conversations->patch_sandbox(id, change, [&answered](const base::Result<SandboxView>& view) {
            CHECK(view.has_value());
            ++answered;
        });
        house.settle();
        REQUIRE(answers.waiting.size() == 1);
    }
    CHECK(answered == 0);
    while (!answers.waiting.empty()) {
        answers.give();
        house.settle();
    }
    CHECK(answered == 2);
    const sandbox::Limits& kept = house.world.store.sandboxes.at(id).limits;
    CHECK(kept.memory_mb == 300);
    CHECK(kept.max_processes == 10);
}

namespace {

/// A conversation over a store that answers later from its first message on.
struct FarHouse : test::House {
    FarHouse() : House({1, {}}) {
        id = create()->record.id;
        answers.emplace(world.store);
    }
    using Ticket = std::optional<base::Result<TurnTicket>>;

    /// The reply is written where `ticket` says.
    void message(Ticket& ticket, const std::string& key, const std::string& content = "hi") {
        conversations->message(id, {content, key, ""}, MessageReply::committed,
                               [&ticket](base::Result<TurnTicket> given) {
                                   REQUIRE_FALSE(ticket.has_value());
                                   ticket = std::move(given);
                               });
    }
    void give(std::size_t which = 0) {
        answers->give(which);
        settle();
    }
    void give_all() {
        settle();
        while (!answers->waiting.empty())
            give();
    }
    void agent_ends_turn() {
        REQUIRE_FALSE(world.queries.empty());
        const auto query = world.queries.front();
        query->observer->on_event({"done", "{}"});
        if (query->observer != nullptr)
            world.end_query(*query, sandbox::QueryEnd::done);
        std::erase(world.queries, query);
        settle();
    }
    /// The ticket that was given.
    static const TurnTicket& given(const Ticket& ticket) {
        REQUIRE(ticket.has_value());
        REQUIRE(ticket->has_value());
        return **ticket;
    }
    static base::Errc refusal(const Ticket& ticket) {
        REQUIRE(ticket.has_value());
        REQUIRE(ticket->has_error());
        return ticket->error().code();
    }
    std::uint64_t turns() const { return conversations->stats().turns_started; }

    std::string id;
    std::optional<Answers> answers;
};

}  // namespace

TEST_CASE("late store: two messages of one key that wait for the store start one turn") {
    FarHouse house;
    FarHouse::Ticket first;
    FarHouse::Ticket second;
    FarHouse::Ticket other;
    house.message(first, "key");
    house.message(second, "key");
    house.message(other, "key", "something else");
    REQUIRE(house.answers->waiting.size() == 3);
    SECTION("answered in order") {
        house.give_all();
        CHECK_FALSE(house.given(first).replayed);
        CHECK(house.given(second).replayed);
    }
    SECTION("answered in another order") {
        house.give(1);
        house.give_all();
        CHECK_FALSE(house.given(second).replayed);
        CHECK(house.given(first).replayed);
    }
    CHECK(house.given(first).turn == 1);
    CHECK(house.given(second).turn == 1);
    CHECK(house.refusal(other) == base::Errc::idempotency_key_reused);
    CHECK(house.turns() == 1);
}

TEST_CASE("late store: what the store says of a key is too old if a key has started a turn meanwhile") {
    FarHouse house;
    FarHouse::Ticket first;
    FarHouse::Ticket retry;
    FarHouse::Ticket next;
    house.message(first, "key");
    house.message(retry, "key");
    house.give(0);  // the first starts its turn
    while (house.answers->waiting.size() > 1)
        house.give(1);
    house.agent_ends_turn();
    house.message(next, "");
    while (house.answers->waiting.size() > 1)
        house.give(1);
    REQUIRE(house.given(next).turn == 2);
    house.agent_ends_turn();
    while (house.answers->waiting.size() > 1)
        house.give(1);
    REQUIRE_FALSE(retry);
    house.give_all();  // the store did not know the key when it was asked
    CHECK(house.given(retry).turn == 1);
    CHECK(house.given(retry).replayed);
    CHECK(house.turns() == 2);
}

TEST_CASE("late store: a retry finds a turn that is over before it was committed") {
    FarHouse house;
    FarHouse::Ticket first;
    FarHouse::Ticket next;
    FarHouse::Ticket retry;
    // While the store is busy with this, the turn's record does not reach it.
    house.conversations->patch(house.id, {}, [](const base::Result<View>&) {});
    house.settle();
    REQUIRE(house.answers->waiting.size() == 1);
    house.message(first, "key");
    house.give(1);
    REQUIRE(house.turns() == 1);
    const auto is_paused = [&] {
        return test::get(*house.conversations, house.id)->record.status == Status::paused;
    };
    house.conversations->pause(house.id, PauseMode::cold, [](const base::Result<View>&) {});
    house.settle();
    while (!is_paused() && house.world.timers.fire_next())
        house.settle();
    REQUIRE(is_paused());
    house.message(next, "");
    REQUIRE_FALSE(first);
    house.message(retry, "key");
    house.give_all();
    CHECK(house.given(first).turn == 1);
    CHECK(house.given(next).turn == 2);
    CHECK(house.given(retry).turn == 1);
    CHECK(house.given(retry).replayed);
    CHECK(house.turns() == 2);
}

TEST_CASE("late store: what a message may do counts when the store has answered") {
    FarHouse house;
    FarHouse::Ticket keyed;
    house.message(keyed, "key");
    REQUIRE(house.answers->waiting.size() == 1);
    SECTION("a turn is open by then") {
        FarHouse::Ticket other;
        house.message(other, "");
        house.give_all();
        CHECK(house.given(other).turn == 1);
        CHECK(house.refusal(keyed) == base::Errc::turn_in_progress);
    }
    SECTION("the conversation is gone by then") {
        std::optional<base::Result<void>> removed;
        house.conversations->remove(house.id, [&](base::Result<void> done) { removed = std::move(done); });
        SECTION("being removed") {
            house.give(0);
            CHECK(house.refusal(keyed) == base::Errc::not_found);
        }
        SECTION("removed") {
            while (!removed) {
                house.settle();
                if (house.answers->waiting.size() > 1)
                    house.give(1);
                else if (!removed)
                    REQUIRE(house.world.timers.fire_next());
            }
            REQUIRE_FALSE(keyed);
            house.give(0);
            CHECK(house.refusal(keyed) == base::Errc::not_found);
        }
    }
    CHECK(house.turns() <= 1);
}

}  // namespace late_store_test
