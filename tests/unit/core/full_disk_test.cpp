#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <optional>

#include "core/base/log.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/manager.hpp"
#include "house.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/support/result_printer.hpp"

namespace full_disk_test {

using namespace atl;

TEST_CASE("A deletion frees its workspace although the store refuses, and is answered once it recovers") {
    base::Budgets budgets;
    test::FakeWorld world(1);
    sandbox::Manager sandboxes({world.clock, world.timers, world, world, world, world, world, world.node},
                               {});
    conversation::Journal journal(world.store, world.timers);
    conversation::ManagerSettings settings;
    settings.agents = {sandbox::AgentSpec{"shell", sandbox::AgentSpec::Kind::shell, {}, {}}};
    conversation::Manager manager(world.clock, world.timers, sandboxes, journal, world.store, budgets.log,
                                  settings);
    REQUIRE(manager.restore(test::load_start(world.store).value()).has_value());
    const auto run = [&] {
        while (world.timers.run_deferred() || world.run_pending()) {
        }
    };
    std::string id;
    manager.create({}, [&](base::Result<conversation::View> made) { id = made.value().record.id; });
    run();
    REQUIRE_FALSE(id.empty());
    REQUIRE(world.workspaces.size() == 1);

    spdlog::set_level(spdlog::level::off);
    bool full = true;
    world.store.fails = [&] { return full; };
    world.node.fails = [&] { return full; };
    bool removed = false;
    manager.remove(id, [&](const base::Result<void>&) { removed = true; });
    run();
    CHECK(world.workspaces.empty());
    CHECK_FALSE(removed);
    CHECK(manager.ready().error().code() == base::Errc::storage_failed);

    full = false;
    world.timers.fire_next();
    run();
    while (!removed && world.timers.fire_next())
        run();
    spdlog::set_level(spdlog::level::info);
    CHECK(removed);
    CHECK(manager.ready().has_value());
    CHECK(world.store.conversations.empty());
}

namespace {

/// A house whose store refuses all from the next commit on, which nobody has noticed yet.
struct FullHouse {
    test::House house{{}};
    std::string id;
    bool full = false;

    FullHouse() {
        id = house.create().value().record.id;
        spdlog::set_level(spdlog::level::off);
        house.world.store.fails = [this] { return full; };
        full = true;
    }
    ~FullHouse() { spdlog::set_level(spdlog::level::info); }
};

}  // namespace

TEST_CASE("A message that the store does not take is answered in time, and told whether its turn runs") {
    FullHouse it;
    conversation::Message message;
    message.content = "echo";
    const bool has_key = GENERATE(false, true);
    if (has_key)
        message.idempotency_key = "k";
    const auto begun = it.house.world.clock.steady_now();
    const auto ticket = it.house.answer<conversation::TurnTicket>([&](auto reply) {
        it.house.conversations->message(it.id, message, conversation::Manager::MessageReply::committed,
                                        std::move(reply));
    });
    REQUIRE(ticket.has_error());
    CHECK(ticket.error().code() == base::Errc::storage_failed);
    INFO(ticket.error().detail());
    CHECK(ticket.error().detail().find("the turn t1") != std::string::npos);
    CHECK((ticket.error().detail().find("it has not run") != std::string::npos) == has_key);
    CHECK(it.house.world.clock.steady_now() - begun <= std::chrono::seconds(10));
    CHECK(it.house.world.queries.size() == (has_key ? 0 : 1));
}

TEST_CASE("A stream that waits for its turn hears that the store does not take it; other readers wait on") {
    FullHouse it;
    auto reader = test::subscribe(*it.house.conversations, it.id, 0).value();
    while (!reader->next(1 << 20)->events.empty()) {
    }
    conversation::Message message;
    message.content = "echo";
    REQUIRE(it.house.answer<conversation::TurnTicket>([&](auto reply) {
        it.house.conversations->message(it.id, message, conversation::Manager::MessageReply::at_once,
                                        std::move(reply));
    }));
    CHECK_FALSE(reader->next(1 << 20)->stalled);
    bool woken = false;
    reader->on_wake([&] { woken = true; });
    while (!woken && it.house.world.timers.fire_next())
        it.house.settle();
    CHECK(reader->next(1 << 20)->stalled);
    it.full = false;
    woken = false;
    reader->on_wake([&] { woken = true; });
    while (!woken && it.house.world.timers.fire_next())
        it.house.settle();
    const auto batch = reader->next(1 << 20);
    CHECK_FALSE(batch->stalled);
    CHECK_FALSE(batch->events.empty());
}

TEST_CASE("A create that the store does not take is answered in time, and leaves nothing") {
    FullHouse it;
    const auto made = it.house.create();
    REQUIRE(made.has_error());
    CHECK(made.error().code() == base::Errc::storage_failed);
    CHECK(made.error().detail() == "the database takes no writes; nothing was made");
    it.full = false;
    while (it.house.world.workspaces.size() > 1 && it.house.world.timers.fire_next())
        it.house.settle();
    CHECK(it.house.world.workspaces.size() == 1);
}

TEST_CASE("A create of a user whose count waits for a commit is answered in time where the store refuses") {
    FullHouse it;
    conversation::Message message;
    message.content = "echo";
    it.house.conversations->message(it.id, message, conversation::Manager::MessageReply::at_once,
                                    [](const auto&) {});
    conversation::CreateRequest request;
    request.user_id = "ann";
    std::optional<base::Result<conversation::View>> made;
    const auto begun = it.house.world.clock.steady_now();
    it.house.conversations->create(std::move(request),
                                   [&](base::Result<conversation::View> view) { made = std::move(view); });
    it.house.settle();
    for (int fired = 0; fired < 100 && !made && it.house.world.timers.fire_next(); ++fired)
        it.house.settle();
    REQUIRE(made.has_value());
    REQUIRE(made->has_error());
    CHECK(made->error().code() == base::Errc::storage_failed);
    CHECK(it.house.world.clock.steady_now() - begun <= std::chrono::seconds(10));
    it.full = false;
    for (int fired = 0; fired < 100 && it.house.world.timers.fire_next(); ++fired)
        it.house.settle();
    CHECK(it.house.world.workspaces.size() == 1);
}

TEST_CASE("A change of a sandbox that the store does not take is answered in time") {
    test::House house{{}};
    const auto made = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
    REQUIRE(made);
    const std::string id = made->record.id;
    spdlog::set_level(spdlog::level::off);
    bool full = true;
    house.world.store.fails = [&] { return full; };
    house.world.node.fails = [&] { return full; };
    conversation::SandboxPatch patch;
    patch.ttl_seconds = 1000;
    const auto begun = house.world.clock.steady_now();
    const auto patched = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->patch_sandbox(id, patch, std::move(reply)); });
    spdlog::set_level(spdlog::level::info);
    REQUIRE(patched.has_error());
    CHECK(patched.error().code() == base::Errc::storage_failed);
    CHECK(house.world.clock.steady_now() - begun <= std::chrono::seconds(10));
}

}  // namespace full_disk_test
