// The repairs by a start when a node's store and a conversations' store are not of the same moment.
#include "core/sandbox/start_sweep.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include "house.hpp"
#include "tests/support/result_printer.hpp"

namespace start_sweep_test {

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

TEST_CASE("start sweep: sandboxes whose uids another server leases get others, with their files") {
    House house({});
    const View first = house.create().value();
    const View second = house.create().value();
    const auto before = house.world.node.facts;
    house.world.foreign = {before.at(first.record.sandbox_id)};
    if (const bool lost = GENERATE(false, true); lost)
        house.world.node.facts.erase(first.record.sandbox_id);
    house.restart();
    const auto& facts = house.world.node.facts;
    REQUIRE(facts.size() == 2);
    CHECK(facts.at(second.record.sandbox_id) == before.at(second.record.sandbox_id));
    const std::uint32_t renewed = facts.at(first.record.sandbox_id);
    CHECK(renewed != before.at(first.record.sandbox_id));
    CHECK(renewed != before.at(second.record.sandbox_id));
    CHECK(house.world.workspaces.at(first.record.sandbox_id) == renewed);
    CHECK(uid_of_next_start(house, first) == renewed);
}

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
    // The pool of a killed server leaves such a sandbox.
    const sandbox::Record pooled = house.sandboxes->create({}).value();
    const std::uint32_t uid = house.world.node.facts.at(pooled.id);
    house.world.server_killed();
    house.sandboxes.emplace(
        sandbox::ManagerPorts{house.world.clock, house.world.timers, house.world, house.world, house.world,
                              house.world, house.world, house.world.node},
        sandbox::ManagerSettings{});
    REQUIRE(house.sandboxes->take_over(known_sandboxes(house.world.store)).value() == 0);
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
    REQUIRE(house.sandboxes->take_over(known_sandboxes(house.world.store)).value() == 0);
    CHECK(house.world.workspaces.contains(pooled.id));
    CHECK(house.world.withheld.contains(uid));
    CHECK(house.sandboxes->create({}).has_value());
}

TEST_CASE("start sweep: a node's store that cannot be written ends the start") {
    FakeWorld world{1};
    world.store.sandboxes["a"].id = "a";
    world.workspaces.emplace("a", 5);
    // Each call in turn.
    const auto known = known_sandboxes(world.store);
    for (int calls = 0; calls < 3; ++calls) {
        world.node.fails = [left = calls]() mutable { return left-- <= 0; };
        const auto refused = sandbox::sweep_at_start(known, world, world, world, world.node);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == base::Errc::storage_failed);
        world.uids.clear();
    }
    world.node.fails = [] { return false; };
    CHECK(sandbox::sweep_at_start(known, world, world, world, world.node));
    CHECK(world.node.facts.at("a") == 5);
}

TEST_CASE("start sweep: a store that cannot be read ends the start, and no workspace is moved") {
    FakeWorld world{1};
    world.workspaces.emplace("a", 5);
    world.unclaimed.insert("a");
    world.node.facts.emplace("a", 5);
    sandbox::KnownSandboxes known;
    known.find = [](const std::string&) {
        return base::Result<std::optional<sandbox::Record>>(base::Error(base::Errc::storage_failed, "no"));
    };
    const auto refused = sandbox::sweep_at_start(known, world, world, world, world.node);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == base::Errc::storage_failed);
    CHECK(world.workspaces.contains("a"));
    CHECK(world.trash.empty());
    CHECK(world.node.facts.contains("a"));
}

TEST_CASE("start sweep: many facts are settled in batches") {
    struct Batches final : sandbox::NodeStore {
        explicit Batches(sandbox::NodeStore& with) : node(with) {}
        base::Result<void> put(const sandbox::HostFacts&) override { throw std::logic_error("one by one"); }
        base::Result<void> erase(const std::string&) override { throw std::logic_error("one by one"); }
        base::Result<std::optional<std::uint32_t>> find(const std::string& id) override {
            return node.find(id);
        }
        base::Result<void> put_all(std::span<const sandbox::HostFacts> facts) override {
            largest = std::max(largest, facts.size());
            return node.put_all(facts);
        }
        base::Result<void> erase_all(std::span<const std::string> ids) override {
            largest = std::max(largest, ids.size());
            return node.erase_all(ids);
        }
        base::Result<std::vector<sandbox::HostFacts>> list(const std::string& after,
                                                           std::size_t limit) override {
            largest = std::max(largest, limit);
            return node.list(after, limit);
        }
        base::Result<std::size_t> count() override { return node.count(); }

        sandbox::NodeStore& node;
        std::size_t largest = 0;
    };
    FakeWorld world{1};
    const auto number = [](std::uint32_t i) { return std::to_string(100'000 + i); };
    std::map<std::string, std::uint32_t> expected;
    // The store's sandboxes: of three, one has facts, one has lost them, and one has lost its workspace.
    for (std::uint32_t i = 1; i <= 15'000; ++i) {
        world.store.sandboxes[number(i)].id = number(i);
        if (i % 3 != 0)
            expected.emplace(number(i), i);
        if (i % 3 != 1)
            world.node.facts.emplace(number(i), i);
    }
    world.workspaces = expected;
    // A sandbox that is gone from the store, and a workspace that only its crash left.
    for (std::uint32_t i = 20'000; i < 30'000; ++i)
        world.node.facts.emplace(number(i), i);
    world.node.facts.emplace("half-made", 31'000);
    world.workspaces.emplace("half-made", 31'000);
    world.unclaimed.insert("half-made");
    Batches node(world.node);
    REQUIRE(sandbox::sweep_at_start(known_sandboxes(world.store), world, world, world, node));
    CHECK(world.node.facts == expected);
    CHECK(world.uids.size() == 10'000);
    CHECK(world.quarantined == std::set<std::uint32_t>{31'000});
    CHECK(node.largest == sandbox::k_facts_batch);
}

TEST_CASE("start sweep: processes of an earlier run are told by name, by their uid, or by the owner's") {
    House house({});
    const View view = house.create(300).value();
    const std::string id = view.record.sandbox_id;
    const std::uint32_t uid = house.world.node.facts.at(id);
    uid_of_next_start(house, view);
    REQUIRE(house.world.processes.size() == 1);
    house.world.gets_stuck(house.world.processes.begin()->second, base::Millis{600'000});
    next_server(house);
    REQUIRE(house.world.left.size() == 1);
    SECTION("by name") {
        house.world.left.front().sandbox_id = id;
        house.world.left.front().host_uids.clear();
    }
    SECTION("by the uid of the facts, which is not the owner's") {
        house.world.left.front().sandbox_id.clear();
        house.world.workspaces.at(id) = uid + 1;
    }
    SECTION("by the owner of the workspace, whose facts are lost") {
        house.world.left.front().sandbox_id.clear();
        house.world.node.facts.clear();
    }
    REQUIRE(house.sandboxes->take_over(known_sandboxes(house.world.store)).value() == 0);
    CHECK(house.sandboxes->committed_memory_mb() == 300);
    REQUIRE(house.sandboxes->undying(9).size() == 1);
    CHECK(house.sandboxes->undying(9).front().sandbox_id == id);
}

namespace {

/// A sandbox that rests, adopted again while the node's store answers, or not.
struct Adopted {
    explicit Adopted(const std::function<void(FakeNodeStore&)>& meanwhile) {
        record = house.sandboxes->create({}).value();
        uid = house.world.node.facts.at(record.id);
        house.sandboxes->release(record.id);
        meanwhile(house.world.node);
        house.sandboxes->adopt(record);
    }
    base::Result<void> start() {
        return house.answer<void>([&](auto reply) { house.sandboxes->start(record.id, {}, reply); });
    }
    std::uint32_t uid_of_process() const { return house.world.processes.begin()->second->host_uid; }

    House house{{}};
    sandbox::Record record;
    std::uint32_t uid = 0;
};

}  // namespace

TEST_CASE("A sandbox whose facts cannot be read does not start until they can") {
    Adopted it([](FakeNodeStore& node) { node.fails = [] { return true; }; });
    const auto refused = it.start();
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::storage_failed);
    CHECK(it.house.world.processes.empty());
    it.house.world.node.fails = [] { return false; };
    REQUIRE(it.start());
    CHECK(it.uid_of_process() == it.uid);
}

TEST_CASE("A workspace without facts under a running server is not started with its owner's uid") {
    // Another sandbox may have that uid by now.
    Adopted it([](FakeNodeStore& node) { node.facts.clear(); });
    const auto refused = it.start();
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::storage_failed);
    CHECK(refused.error().detail().find("restart the server") != std::string::npos);
    CHECK(it.house.world.processes.empty());
}

TEST_CASE("A removed sandbox whose facts could not be read gives its uid back if they can by then") {
    Adopted it([](FakeNodeStore& node) { node.fails = [] { return true; }; });
    bool is_back = false;
    SECTION("they can") {
        it.house.world.node.fails = [] { return false; };
        is_back = true;
    }
    SECTION("they cannot") {}
    it.house.answer<void>([&](auto reply) {
        it.house.sandboxes->remove(it.record.id, [reply] { reply(base::Result<void>()); });
    });
    CHECK(it.house.world.workspaces.empty());
    CHECK(it.house.world.uids.contains(it.uid) != is_back);
    CHECK(it.house.world.node.facts.contains(it.record.id) != is_back);
}

}  // namespace start_sweep_test
