#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "core/base/log.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/manager.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fake_world.hpp"

namespace full_disk_test {

using namespace atl;

TEST_CASE("A deletion frees its workspace although the store refuses, and is answered once it recovers") {
    test::FakeWorld world(1);
    sandbox::Manager sandboxes({world.clock, world.timers, world, world, world, world, world, world.node},
                               {});
    conversation::Journal journal(world.store, world.timers);
    conversation::ManagerSettings settings;
    settings.agents = {sandbox::AgentSpec{"shell", sandbox::AgentSpec::Kind::shell, {}, {}}};
    conversation::Manager manager(world.clock, world.timers, sandboxes, journal, world.store, settings);
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

}  // namespace full_disk_test
