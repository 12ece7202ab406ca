// The budget of logs: turns that begin, run and are cut within it, over fakes of every port.
#include <catch2/catch_test_macros.hpp>

#include "core/base/log.hpp"
#include "core/conversation/log_shares.hpp"
#include "core/store/sqlite_store.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"
#include "tests/unit/core/house.hpp"

namespace log_budget_test {

using namespace atl;
using namespace atl::conversation;
using base::Errc;
using base::ShareHolder;

namespace {

constexpr std::uint64_t k_kib = 1024;
constexpr std::uint64_t k_mib = 1024 * k_kib;

struct LogHouse : test::House {
    explicit LogHouse(std::uint64_t log_bytes = 4 * k_mib, ManagerSettings settings = {})
        : House({}, std::move(settings), log_bytes) {
        conversations->count_logs();
    }

    std::string make(const char* user) {
        CreateRequest request;
        if (*user != '\0')
            request.user_id = user;
        return create(std::move(request))->record.id;
    }
    /// A turn that stays open.
    base::Result<TurnTicket> message(const std::string& id, std::size_t bytes) {
        return answer<TurnTicket>([&](auto reply) {
            conversations->message(id, {std::string(bytes, 'x'), "", ""}, MessageReply::at_once,
                                   std::move(reply));
        });
    }
    void say(const char* name, const std::string& data) {
        REQUIRE_FALSE(world.queries.empty());
        const auto query = world.queries.back();
        REQUIRE(query->observer != nullptr);
        query->observer->on_event({name, data});
        settle();
    }
    void end_turn() {
        const auto query = world.queries.back();
        say("done", "{}");
        if (query->observer != nullptr)
            world.end_query(*query, sandbox::QueryEnd::done);
        std::erase(world.queries, query);
        settle();
    }
    /// A turn whose message is so long.
    base::Result<TurnTicket> turn(const std::string& id, std::size_t bytes) {
        auto begun = message(id, bytes);
        if (begun)
            end_turn();
        return begun;
    }
    /// Turns of 256 KiB, until one is refused, with this error.
    base::Error fill(const std::string& id) {
        for (int turns = 0; turns < 64; ++turns) {
            if (const auto refused = turn(id, 256 * k_kib); !refused)
                return refused.error();
        }
        return {};
    }
    std::uint64_t held_by(const char* user) const { return budgets.log.held_by(ShareHolder::user(user)); }
    View view(const std::string& id) { return test::get(*conversations, id).value(); }
    void pause(const std::string& id) {
        REQUIRE(answer([&](auto reply) { conversations->pause(id, PauseMode::cold, std::move(reply)); }));
    }
    /// Until all that rest are unloaded.
    void rest() {
        while (conversations->loaded() > 0 && world.timers.fire_next())
            settle();
        REQUIRE(conversations->loaded() == 0);
    }
};

}  // namespace

TEST_CASE("log budget: a user fills no more than a share, the others go on, and a deletion gives room back") {
    LogHouse house;
    const std::string greedy = house.make("greedy");
    const std::string other = house.make("other");
    const base::Error refused = house.fill(greedy);
    CHECK(refused.code() == Errc::user_share);
    CHECK(refused.members().front().second == "\"log\"");
    // Another conversation of the user is no way around it.
    CHECK(house.fill(house.make("greedy")).code() == Errc::user_share);
    CHECK(house.held_by("greedy") > k_mib);
    CHECK(house.held_by("greedy") <= 2 * k_mib);
    CHECK(house.turn(other, 256 * k_kib));
    REQUIRE(house.answer<void>([&](auto reply) { house.conversations->remove(greedy, std::move(reply)); }));
    while (house.held_by("greedy") >= 64 * k_kib && house.world.timers.fire_next())
        house.settle();
    CHECK(house.held_by("greedy") < 64 * k_kib);
    CHECK(house.turn(house.make("greedy"), 256 * k_kib));
}

TEST_CASE("log budget: a turn that finds no more room has its output truncated, and ends as it should") {
    LogHouse house;
    const std::string id = house.make("greedy");
    REQUIRE(house.message(id, 10));
    const std::string piece = R"({"delta":")" + std::string(256 * k_kib, 'x') + "\"}";
    for (int i = 0; i < 16; ++i)
        house.say("text_delta", piece);
    house.end_turn();
    CHECK(house.held_by("greedy") <= 2 * k_mib + k_kib);
    std::vector<EventType> types;
    for (const auto& [key, event] : house.world.store.events)
        types.push_back(event->type);
    CHECK(std::ranges::count(types, EventType::text_delta) < 8);
    CHECK(std::ranges::count(types, EventType::output_truncated) == 1);
    CHECK(types.back() == EventType::done);
}

TEST_CASE("log budget: metadata counts, in memory and at rest, and is refused beyond the share") {
    LogHouse house(256 * k_kib);
    const std::string text = R"({"a":")" + std::string(15 * k_kib, 'x') + "\"}";
    const auto make = [&](const char* user) {
        CreateRequest request;
        request.user_id = user;
        request.metadata = text;
        return house.create(std::move(request));
    };
    const std::string id = make("greedy")->record.id;
    const auto patch = [&](const std::string& metadata) {
        PatchRequest change;
        change.metadata = metadata;
        return house.answer([&](auto reply) { house.conversations->patch(id, change, std::move(reply)); });
    };
    CHECK(house.held_by("greedy") >= 30 * k_kib);
    REQUIRE(patch(R"({"a":null})"));
    CHECK(house.held_by("greedy") < 4 * k_kib);
    REQUIRE(patch(text));
    CHECK(house.held_by("greedy") >= 30 * k_kib);
    house.pause(id);
    house.rest();
    CHECK(house.held_by("greedy") >= 30 * k_kib);
    house.restart();
    CHECK(house.budgets.log.used() == 0);
    house.conversations->count_logs();
    CHECK(house.held_by("greedy") >= 30 * k_kib);
    CHECK(house.held_by("greedy") < 34 * k_kib);
    base::Error refused;
    for (int made = 1; made < 10 && refused.code() != Errc::user_share; ++made) {
        if (const auto next = make("greedy"); !next)
            refused = next.error();
    }
    REQUIRE(refused.code() == Errc::user_share);
    CHECK(refused.members().front().second == "\"log\"");
    CHECK(house.held_by("greedy") <= 128 * k_kib);
    CHECK(make("other"));
}

TEST_CASE("log budget: after a start workspaces at rest are told to the disk's guard when it takes more") {
    LogHouse house;
    const std::string owned = house.make("ann");
    const std::string alone = house.make("");
    house.pause(owned);
    house.pause(alone);
    house.rest();
    house.restart();
    house.world.busy_at_rest = true;
    house.conversations->count_logs();
    house.world.timers.advance(std::chrono::minutes{1}, [&] { house.settle(); });
    // The logs are counted all the same.
    CHECK(house.held_by("ann") > 0);
    CHECK(house.world.measured_at_rest.empty());
    house.world.busy_at_rest = false;
    house.world.timers.advance(std::chrono::seconds{1}, [&] { house.settle(); });
    CHECK(house.world.measured_at_rest.size() == 1);
}

TEST_CASE("log budget: logs at rest count, before and after a restart, and once") {
    LogHouse house;
    const std::string owned = house.make("greedy");
    const std::string alone = house.make("");
    REQUIRE(house.turn(owned, 512 * k_kib));
    REQUIRE(house.turn(alone, 256 * k_kib));
    house.pause(owned);
    house.pause(alone);
    house.rest();
    const std::uint64_t used = house.budgets.log.used();
    const std::uint64_t held = house.held_by("greedy");
    std::uint64_t stored = 0;
    for (const auto& [key, event] : house.world.store.events)
        stored += event->json.size();
    CHECK(used == stored);
    CHECK(held > 512 * k_kib);
    house.restart();
    CHECK(house.budgets.log.used() == 0);
    house.conversations->count_logs();
    // But for the event that tells of the pause.
    CHECK(house.held_by("greedy") <= held);
    CHECK(house.held_by("greedy") + k_kib > held);
    CHECK(house.budgets.log.used() + 2 * k_kib > used);
    CHECK(house.fill(owned).code() == Errc::user_share);
    CHECK(house.held_by("greedy") <= 2 * k_mib);
    house.pause(owned);
    house.rest();
    const std::uint64_t filled = house.held_by("greedy");
    for (int round = 0; round < 3; ++round) {
        auto reader = test::subscribe(*house.conversations, owned, 0);
        REQUIRE(reader);
        CHECK(house.held_by("greedy") == filled);
        reader->reset();
        house.rest();
        CHECK(house.held_by("greedy") == filled);
    }
}

TEST_CASE("log budget: a data directory whose logs exceed it is cut at the start, the largest user first") {
    LogHouse large(64 * k_mib);
    const std::string greedy = large.make("greedy");
    const std::string other = large.make("other");
    for (int turns = 0; turns < 24; ++turns)
        REQUIRE(large.turn(greedy, 256 * k_kib));
    REQUIRE(large.turn(other, 256 * k_kib));
    LogHouse house(2 * k_mib);
    house.world.store.conversations = large.world.store.conversations;
    house.world.store.sandboxes = large.world.store.sandboxes;
    house.world.store.turns = large.world.store.turns;
    house.world.store.events = large.world.store.events;
    spdlog::set_level(spdlog::level::off);
    house.restart();
    house.conversations->count_logs();
    house.settle();
    while (house.budgets.log.used() > 2 * k_mib && house.world.timers.fire_next())
        house.settle();
    spdlog::set_level(spdlog::level::info);
    CHECK(house.budgets.log.used() <= 2 * k_mib);
    CHECK(house.view(greedy).record.first_seq > 1);
    CHECK(house.view(other).record.first_seq == 1);
}

TEST_CASE("log budget: below the reserve of the disk turns of the largest user are refused first, then all") {
    double left = 1;
    ManagerSettings settings;
    settings.reserve_left = [&left] { return left; };
    LogHouse house(64 * k_mib, settings);
    const std::string greedy = house.make("greedy");
    const std::string other = house.make("other");
    for (int turns = 0; turns < 12; ++turns)
        REQUIRE(house.turn(greedy, 256 * k_kib));
    REQUIRE(house.turn(other, 512 * k_kib));
    spdlog::set_level(spdlog::level::off);
    left = 0.9;
    CHECK(house.turn(other, 10));
    const std::uint64_t before = house.held_by("greedy");
    const auto refused = house.message(greedy, 10);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == Errc::capacity);
    CHECK(refused.error().members().front().second == "\"log\"");
    CHECK(refused.error().detail().find("logs of this user") != std::string::npos);
    // The database has no room of its own: the largest log makes some.
    CHECK(house.held_by("greedy") < before);
    CHECK(house.view(other).record.first_seq == 1);
    left = 0.4;
    CHECK(house.turn(other, 10));
    left = 0;
    const auto last = house.message(other, 10);
    REQUIRE(last.has_error());
    CHECK(last.error().code() == Errc::capacity);
    CHECK(last.error().detail().find("nobody's turn") != std::string::npos);
    left = 1;
    CHECK(house.turn(greedy, 10));
    spdlog::set_level(spdlog::level::info);
}

TEST_CASE("log budget: the database tells sizes of logs by turns and records, and the largest of each user") {
    const test::TempDir dir;
    const auto store = *store::SqliteStore::open(dir.path() / "test.db");
    std::vector<Write> writes;
    const auto add = [&](std::int64_t key, const char* user, std::uint64_t first_seq, std::uint64_t logged) {
        Record record;
        record.key = key;
        record.id = "c" + std::to_string(key);
        record.sandbox_id = "s" + std::to_string(key);
        record.first_seq = first_seq;
        record.log_bytes = logged;
        if (*user != '\0')
            record.user_id = user;
        writes.emplace_back(PutConversation{record});
        for (std::uint64_t turn = 1; turn <= 2; ++turn) {
            TurnRecord ended;
            ended.conversation_key = key;
            ended.turn = turn;
            ended.first_seq = 10 * turn;
            ended.last_seq = 10 * turn + 9;
            ended.bytes = 100;
            writes.emplace_back(PutTurn{ended});
        }
    };
    add(1, "a", 1, 0);    // 200, as its turns tell
    add(2, "a", 1, 900);  // 900, as its record tells
    add(3, "b", 20, 0);   // 100: a turn was cut
    add(4, "", 1, 1000);  // larger than each of a, smaller than both
    add(5, "", 1, 300);
    REQUIRE(test::commit(*store, writes));
    std::vector<std::uint64_t> sizes;
    store->log_sizes({0, 4}, [&](const base::Result<Listed<LogSize>>& found) {
        REQUIRE(found);
        CHECK(found->next_key == 0);
        for (const LogSize& log : found->items)
            sizes.push_back(log.bytes);
        CHECK(found->items.at(0).user_id == "a");
        CHECK(found->items.at(3).user_id == std::nullopt);
    });
    CHECK(sizes == std::vector<std::uint64_t>{200, 900, 100, 1000});
    store->largest_logs(4, [](const base::Result<std::vector<std::string>>& ids) {
        REQUIRE(ids);
        CHECK(*ids == std::vector<std::string>{"c2", "c1"});
    });
    CHECK(store->free_bytes() == 0);
}

}  // namespace log_budget_test
