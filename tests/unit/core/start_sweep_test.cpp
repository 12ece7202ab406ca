// What a start makes of a node's store and a conversations' store that are not of the same moment.
#include "core/sandbox/start_sweep.hpp"

#include <catch2/catch_test_macros.hpp>

#include "house.hpp"
#include "tests/support/result_printer.hpp"

using namespace atl;
using namespace atl::test;
using conversation::View;

namespace {

/// The uid of the process that a message to this conversation starts.
std::uint32_t uid_of_next_start(House& house, const View& view) {
    const auto resumed =
        house.answer([&](auto reply) { house.conversations->resume(view.record.id, std::move(reply)); });
    REQUIRE(resumed.has_value());
    for (const auto& [pid, process] : house.world.processes) {
        if (process->sandbox_id == view.record.sandbox_id)
            return process->host_uid;
    }
    return 0;
}

/// Another server, which has not taken over yet.
void next_server(House& house) {
    FakeWorld& world = house.world;
    world.server_killed();
    house.sandboxes.emplace(
        sandbox::ManagerPorts{world.clock, world.timers, world, world, world, world, world, world.node},
        sandbox::ManagerSettings{});
}

}  // namespace

TEST_CASE("start sweep: a sandbox whose facts are lost gets them from the owner of its workspace") {
    House house({});
    const View first = house.create().value();
    const View second = house.create().value();
    const auto facts = house.world.node.facts;
    REQUIRE(facts.size() == 2);
    house.world.node.facts.clear();
    house.restart();
    CHECK(house.world.node.facts == facts);
    CHECK(uid_of_next_start(house, second) == facts.at(second.record.sandbox_id));
    CHECK(uid_of_next_start(house, first) == facts.at(first.record.sandbox_id));
    // Nobody else gets these.
    CHECK(house.create().has_value());
    CHECK(house.world.uids.size() == 3);
}

TEST_CASE("start sweep: facts of a sandbox that was not made any more are erased, and the uid is free") {
    House house({});
    const View made = house.create().value();
    // The server died between the facts and the workspace.
    house.world.node.facts.emplace("half-made", 2);
    house.restart();
    CHECK(house.world.node.facts.size() == 1);
    CHECK(house.world.uids == std::set{house.world.node.facts.at(made.record.sandbox_id)});
    const View next = house.create().value();
    CHECK(house.world.node.facts.at(next.record.sandbox_id) == 2);
}

TEST_CASE("start sweep: the uid of a sandbox that no store knows is free once its workspace is removed") {
    House house({});
    // As the pool of a killed server leaves them.
    const sandbox::Record pooled = house.sandboxes->create({}).value();
    const std::uint32_t uid = house.world.node.facts.at(pooled.id);
    house.world.server_killed();
    house.sandboxes.emplace(
        sandbox::ManagerPorts{house.world.clock, house.world.timers, house.world, house.world, house.world,
                              house.world, house.world, house.world.node},
        sandbox::ManagerSettings{});
    REQUIRE(house.sandboxes->take_over({}).value() == 0);
    CHECK(house.world.node.facts.empty());
    REQUIRE(house.world.trash.size() == 1);
    CHECK(house.world.node.facts.at(house.sandboxes->create({})->id) != uid);
    house.settle();
    CHECK(house.world.trash.empty());
    CHECK(house.world.node.facts.at(house.sandboxes->create({})->id) == uid);
}

TEST_CASE("start sweep: a sandbox of the store without a workspace has no uid, and can be removed") {
    House house({});
    const View view = house.create().value();
    // The store forgot the removal; the node's store did not.
    house.world.workspaces.clear();
    house.world.workspaces_may_be_missing = true;
    SECTION("whose facts are gone, too") {
        house.world.node.facts.clear();
    }
    SECTION("whose facts were not erased") {}
    house.restart();
    CHECK(house.world.node.facts.empty());
    CHECK(house.world.uids.empty());
    CHECK(house.answer([&](auto reply) { house.conversations->resume(view.record.id, std::move(reply)); })
              .has_error());
    CHECK(
        house.answer<void>([&](auto reply) { house.conversations->remove(view.record.id, std::move(reply)); })
            .has_value());
    CHECK(house.world.store.sandboxes.empty());
}

TEST_CASE("start sweep: a workspace below processes of an earlier run keeps its uid, known or not") {
    House house({});
    const sandbox::Record pooled = house.sandboxes->create({}).value();
    const std::uint32_t uid = house.world.node.facts.at(pooled.id);
    house.sandboxes->start(pooled.id, {}, [](const auto&) {});
    house.settle();
    REQUIRE(house.world.processes.size() == 1);
    house.world.gets_stuck(house.world.processes.begin()->second, base::Millis{600'000});
    next_server(house);
    REQUIRE(house.world.left.size() == 1);
    house.world.left.front().sandbox_id = pooled.id;
    house.world.left.front().host_uids.clear();  // its processes tell none
    REQUIRE(house.sandboxes->take_over({}).value() == 0);
    CHECK(house.world.workspaces.contains(pooled.id));
    CHECK(house.world.withheld.contains(uid));
    CHECK(house.sandboxes->create({}).has_value());
}

TEST_CASE("start sweep: a node's store that cannot be written ends the start") {
    FakeWorld world{1};
    sandbox::Record known;
    known.id = "a";
    world.workspaces.emplace("a", 5);
    world.node.fails = [] { return true; };
    const auto refused = sandbox::sweep_at_start({known}, world, world, world, world.node);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == base::Errc::storage_failed);
}

TEST_CASE("A sandbox whose facts cannot be put is not made, and nothing of it is left") {
    House house({});
    house.world.node.fails = [] { return true; };
    const auto refused = house.create();
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::storage_failed);
    CHECK(house.world.workspaces.empty());
    CHECK(house.world.uids.empty());
    house.world.node.fails = [] { return false; };
    CHECK(house.create().has_value());
}

TEST_CASE("A uid whose facts cannot be erased is free only after the next start") {
    House house({});
    const View view = house.create().value();
    const std::uint32_t uid = house.world.node.facts.at(view.record.sandbox_id);
    house.world.node.fails = [] { return true; };
    CHECK(
        house.answer<void>([&](auto reply) { house.conversations->remove(view.record.id, std::move(reply)); })
            .has_value());
    house.world.node.fails = [] { return false; };
    CHECK(house.world.uids.contains(uid));
    CHECK(house.world.node.facts.at(house.create()->record.sandbox_id) != uid);
    house.restart();
    CHECK_FALSE(house.world.uids.contains(uid));
    CHECK(house.world.node.facts.size() == 1);
    CHECK(house.world.node.facts.at(house.create()->record.sandbox_id) == uid);
}
