// Bounds on the number of conversations, on one page of a list, and on a start with many conversations in the
// store.
#include <time.h>

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "core/base/ids.hpp"
#include "tests/support/deadline.hpp"
#include "tests/unit/core/house.hpp"

namespace core_bounds_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;
using base::Errc;
using conversation::CreateRequest;
using conversation::ListOrder;
using conversation::ListQuery;
using conversation::Status;

namespace {

CreateRequest of_user(const char* user) {
    CreateRequest request;
    request.user_id = user;
    return request;
}

conversation::ManagerSettings bounded(std::size_t all, std::size_t of_user) {
    conversation::ManagerSettings settings;
    settings.conversation_bounds = {all, of_user};
    return settings;
}

void remove(House& house, const std::string& id) {
    REQUIRE(house.answer<void>([&](auto reply) { house.conversations->remove(id, std::move(reply)); })
                .has_value());
}

base::Result<conversation::Manager::SandboxView> create_sandbox(House& house) {
    return house.answer<conversation::Manager::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
}

/// Advances the time, timer by timer.
void pass(House& house, base::Millis time) {
    const auto until = house.world.clock.steady_now() + time;
    const base::TimerId end = house.world.timers.arm(time, [] {});
    (void)end;
    house.settle();
    while (house.world.clock.steady_now() < until && house.world.timers.fire_next())
        house.settle();
}

base::Millis cpu_now() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::duration_cast<base::Millis>(std::chrono::seconds(now.tv_sec) +
                                                    std::chrono::nanoseconds(now.tv_nsec));
}

/// Conversations that an earlier run left, all of them running.
void fill_store(FakeStore& store, std::size_t count) {
    for (std::size_t at = 1; at <= count; ++at) {
        conversation::Record record;
        record.key = static_cast<std::int64_t>(at);
        record.id = base::new_id();
        record.agent = "shell";
        record.user_id = "user" + std::to_string(at % 100);
        record.sandbox_id = base::new_id();
        record.status = at % 10 == 0 ? Status::error : Status::active;
        sandbox::Record box;
        box.id = record.sandbox_id;
        box.conversation_id = record.id;
        store.sandboxes.emplace(box.id, box);
        // The record of this turn was lost with the server: only its events are left.
        const auto event = conversation::make_event(1, conversation::EventType::done, {}, 1, "{}");
        store.events.emplace(std::pair{record.key, std::uint64_t{1}}, event);
        store.conversations.emplace(record.key, std::move(record));
    }
}

}  // namespace

TEST_CASE("bounds: conversations and sandboxes without one are counted together, and a deleted one no more") {
    House house({}, bounded(3, 3));
    const std::string first = house.create()->record.id;
    REQUIRE(house.create().has_value());
    const auto box = create_sandbox(house);
    REQUIRE(box.has_value());
    CHECK(house.conversations->count() == 3);
    CHECK(house.create().error().code() == Errc::capacity);
    CHECK(create_sandbox(house).error().code() == Errc::capacity);
    remove(house, first);
    CHECK(house.create().has_value());
    CHECK(house.create().error().code() == Errc::capacity);
    REQUIRE(house
                .answer<void>([&](auto reply) {
                    house.conversations->remove_sandbox(box->record.id, std::move(reply));
                })
                .has_value());
    CHECK(create_sandbox(house).has_value());
    CHECK(house.conversations->count() == 3);
}

TEST_CASE("bounds: a user has a bound of its own, which is no other user's") {
    House house({}, bounded(100, 2));
    const std::string first = house.create(of_user("ann"))->record.id;
    REQUIRE(house.create(of_user("ann")).has_value());
    CHECK(house.create(of_user("ann")).error().code() == Errc::too_many_conversations);
    CHECK(house.create(of_user("ben")).has_value());
    for (int at = 0; at < 3; ++at)
        CHECK(house.create().has_value());
    remove(house, first);
    CHECK(house.create(of_user("ann")).has_value());
}

TEST_CASE("bounds: paused conversations count, and all of them after a restart") {
    House house({}, bounded(4, 2));
    REQUIRE(house.create(of_user("ann")).has_value());
    REQUIRE(house.freeze(house.create(of_user("ann"))->record.id).has_value());
    REQUIRE(create_sandbox(house).has_value());
    house.restart();
    CHECK(house.conversations->count() == 3);
    CHECK(house.create(of_user("ann")).error().code() == Errc::too_many_conversations);
    CHECK(house.create().has_value());
    CHECK(house.create().error().code() == Errc::capacity);
}

TEST_CASE("bounds: a create that fails counts for nothing") {
    House house({}, bounded(1, 1));
    house.world.failure_per_mille = 1000;
    REQUIRE(house.create().has_error());
    REQUIRE(create_sandbox(house).has_error());
    house.world.failure_per_mille = 0;
    CHECK(house.conversations->count() == 0);
    CHECK(house.create().has_value());
}

TEST_CASE(
    "bounds: one whose time to live is over counts no more, can be read for a while, then is forgotten") {
    auto settings = bounded(1, 1);
    settings.keep_ended = 100s;
    House house({}, settings);
    CreateRequest request = of_user("ann");
    request.ttl_seconds = 50;
    request.env = {{"SECRET", "x"}};
    const std::string id = house.create(request)->record.id;
    CHECK(house.create(of_user("ann")).error().code() == Errc::capacity);
    pass(house, 60s);
    REQUIRE(test::get(*house.conversations, id)->record.status == Status::ended);
    CHECK(test::subscribe(*house.conversations, id, 0).has_value());
    CHECK(house.world.store.sandboxes.begin()->second.env.empty());
    const std::string second = house.create(of_user("ann"))->record.id;
    // Also by the next server, which knows the time of its end from when it was created.
    house.restart();
    REQUIRE(test::get(*house.conversations, id)->record.status == Status::ended);
    CHECK(test::get(*house.conversations, id)->record.reason == conversation::PauseReason::ttl);
    pass(house, 100s);
    CHECK(test::get(*house.conversations, id).error().code() == Errc::not_found);
    CHECK(test::get(*house.conversations, second).has_value());
    pass(house, 1s);
    CHECK(house.world.store.conversations.size() == 1);
    CHECK(house.world.store.sandboxes.size() == 1);
}

TEST_CASE("bounds: of those that have ended only so many are kept, the oldest go first") {
    FakeWorld probe{1};
    const std::size_t kept = 1000;
    conversation::ManagerSettings settings = bounded(100'000, 100'000);
    settings.max_kept_ended = kept;
    House house({}, settings);
    for (std::size_t at = 1; at <= kept + 100; ++at) {
        conversation::Record record;
        record.key = static_cast<std::int64_t>(at);
        record.id = base::new_id();
        record.agent = "shell";
        record.sandbox_id = base::new_id();
        record.status = Status::ended;
        record.ttl_seconds = 1;
        record.created_at = house.world.clock.wall_now() + base::Millis{static_cast<int>(at)};
        sandbox::Record box;
        box.id = record.sandbox_id;
        box.conversation_id = record.id;
        box.gone = true;
        house.world.store.sandboxes.emplace(box.id, box);
        house.world.store.conversations.emplace(record.key, std::move(record));
    }
    house.world.clock.advance(1h);
    house.restart();
    pass(house, 10s);
    CHECK(house.conversations->count() == 0);
    CHECK(house.world.store.conversations.size() == kept);
    CHECK(house.world.store.conversations.begin()->first == 101);
}

TEST_CASE("bounds: a clock that jumps ahead ends nothing early, and one that jumps back keeps nothing") {
    House house({}, {});
    CreateRequest request;
    request.ttl_seconds = 3600;
    request.idle_seconds = 600;
    const std::string id = house.create(request)->record.id;
    conversation::Manager::SandboxRequest loose;
    loose.ttl_seconds = 3600;
    const auto box = house.answer<conversation::Manager::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox(loose, std::move(reply)); });
    for (const base::Millis jump : {base::Millis{24h * 365}, base::Millis{-24h * 730}}) {
        house.world.clock.jump_wall(jump);
        // Each makes the server look at the timers again.
        REQUIRE(house.freeze(id).has_value());
        REQUIRE(
            house.answer([&](auto reply) { house.conversations->resume(id, std::move(reply)); }).has_value());
        pass(house, 500s);
        CHECK(test::get(*house.conversations, id)->record.status == Status::active);
        CHECK(test::get_sandbox(*house.conversations, box->record.id).has_value());
    }
    pass(house, 2700s);
    CHECK(test::get(*house.conversations, id)->record.status == Status::ended);
    CHECK(test::get_sandbox(*house.conversations, box->record.id).has_error());
}

TEST_CASE(
    "bounds: a start with ten times the conversations takes some ten times as long, and a list looks at few "
    "of them") {
    const auto start_of = [](House& house, std::size_t count) {
        fill_store(house.world.store, count);
        const base::Millis before = cpu_now();
        house.restart();
        return cpu_now() - before;
    };
    // The gate takes a part of them, and leaves the bound on time to --full.
    const std::size_t k_count = test::checks_bounds() ? 100'000 : 20'000;
    const base::Millis of_few = [&] {
        House few({}, {});
        return start_of(few, k_count / 10);
    }();
    House house({}, {});
    const base::Millis took = start_of(house, k_count);
    CAPTURE(of_few.count(), took.count());
    // Ten times as many take some fifteen times as long; comparing each with each would take a hundred times.
    if (test::checks_bounds())
        CHECK(took < 40 * of_few + 100ms);
    REQUIRE(house.conversations->count() == k_count);

    ListQuery rare;
    rare.filter.status = Status::ended;
    auto page = test::list(*house.conversations, rare);
    CHECK(page->items.empty());
    CHECK_FALSE(page->next.empty());
    for (const auto order : {ListOrder::oldest_first, ListOrder::newest_first}) {
        ListQuery failed;
        failed.order = order;
        failed.filter.status = Status::error;
        failed.limit = base::k_max_page_items;
        std::set<std::string> found;
        std::size_t calls = 0;
        do {
            page = test::list(*house.conversations, failed);
            for (const auto& view : page->items)
                CHECK(found.insert(view.record.id).second);
            failed.cursor = page->next;
            ++calls;
        } while (!failed.cursor.empty());
        CHECK(found.size() == k_count / 10);
        CHECK(calls >= k_count / base::k_list_scan_items);
    }
    // A user's own are found without a look at the others'.
    ListQuery own;
    own.filter.user_id = "user7";
    own.limit = 10;
    page = test::list(*house.conversations, own);
    CHECK(page->items.size() == 10);
    own.filter.user_id = "nobody";
    page = test::list(*house.conversations, own);
    CHECK(page->items.empty());
    CHECK(page->next.empty());
}

TEST_CASE("bounds: a page of sandboxes or conversations ends by its bytes, and the next goes on there") {
    House house({}, {});
    constexpr std::size_t k_count = 40;
    const std::string metadata = "{\"a\":\"" + std::string(15'000, 'm') + "\"}";
    for (std::size_t at = 0; at < k_count; ++at) {
        CreateRequest request;
        request.metadata = metadata;
        REQUIRE(house.create(request).has_value());
        conversation::Manager::SandboxRequest loose;
        loose.metadata = metadata;
        REQUIRE(house
                    .answer<conversation::Manager::SandboxView>(
                        [&](auto reply) { house.conversations->create_sandbox(loose, std::move(reply)); })
                    .has_value());
    }
    std::set<std::string> seen;
    std::string cursor;
    do {
        const auto page = test::list_sandboxes(*house.conversations, base::k_max_page_items, cursor);
        std::size_t bytes = 0;
        for (const auto& view : page->items) {
            CHECK(seen.insert(view.record.id).second);
            CHECK(view.record.env.empty());
            bytes += view.record.metadata.size();
        }
        CHECK(bytes <= base::k_list_page_bytes + metadata.size());
        cursor = page->next;
    } while (!cursor.empty());
    CHECK(seen.size() == 2 * k_count);
}

}  // namespace core_bounds_test
