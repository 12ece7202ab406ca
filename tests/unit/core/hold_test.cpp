// A sandbox that is stopped for a measurement: no client sees it, and every other step has priority.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>

#include "core/sandbox/manager.hpp"
#include "tests/support/fake_world.hpp"

namespace hold_test {

using namespace atl;
using namespace atl::test;

namespace {

class Box {
  public:
    Box() {
        sandboxes.emplace(
            sandbox::ManagerPorts{world.clock, world.timers, world, world, world, world, world, world.node},
            sandbox::ManagerSettings{});
        id = sandboxes->create({})->id;
        std::optional<base::Result<void>> started;
        sandboxes->start(id, sandbox::AgentSpec{"shell", sandbox::AgentSpec::Kind::shell, {}, {}},
                         [&started](const auto& result) { started = result; });
        settle();
        REQUIRE(started.has_value());
        REQUIRE(started->has_value());
    }
    void settle() {
        while (world.timers.run_deferred() || world.run_pending()) {
        }
    }
    void hold() {
        held.reset();
        sandboxes->hold_still(id, [this](const auto& result) { held = result; });
    }
    bool stands_still() const {
        for (const auto& [pid, process] : world.processes) {
            if (process->frozen)
                return true;
        }
        return false;
    }
    sandbox::Status status() const { return sandboxes->status(id); }

    FakeWorld world{11};
    std::optional<sandbox::Manager> sandboxes;
    std::string id;
    std::optional<base::Result<void>> held;
};

}  // namespace

TEST_CASE("hold: it stands still from the answer until it is let go, and stays ready") {
    Box box;
    box.hold();
    CHECK_FALSE(box.held.has_value());
    box.settle();
    REQUIRE(box.held.has_value());
    CHECK(box.held->has_value());
    CHECK(box.stands_still());
    CHECK(box.status() == sandbox::Status::ready);
    CHECK(box.sandboxes->end_hold(box.id));
    CHECK_FALSE(box.stands_still());
    CHECK(box.status() == sandbox::Status::ready);
    CHECK_FALSE(box.sandboxes->end_hold(box.id));
}

TEST_CASE("hold: let go before it stands still, it goes on and nobody is told") {
    Box box;
    box.hold();
    CHECK_FALSE(box.sandboxes->end_hold(box.id));
    box.settle();
    CHECK_FALSE(box.held.has_value());
    CHECK_FALSE(box.stands_still());
}

TEST_CASE("hold: one that is frozen anyway is held as it is, and stays frozen") {
    Box box;
    box.sandboxes->freeze(box.id, [](const auto&) {});
    box.settle();
    REQUIRE(box.status() == sandbox::Status::frozen);
    box.hold();
    box.settle();
    REQUIRE(box.held.has_value());
    CHECK(box.held->has_value());
    SECTION("until it is let go") {
        CHECK(box.sandboxes->end_hold(box.id));
        CHECK(box.status() == sandbox::Status::frozen);
        CHECK(box.stands_still());
    }
    SECTION("and a thaw does not wait") {
        box.sandboxes->thaw(box.id);
        CHECK_FALSE(box.stands_still());
        CHECK(box.status() == sandbox::Status::ready);
        CHECK_FALSE(box.sandboxes->end_hold(box.id));
    }
}

TEST_CASE("hold: a freeze that is asked for meanwhile comes, and the end of the hold does not undo it") {
    Box box;
    const bool stood = GENERATE(false, true);
    box.hold();
    if (stood)
        box.settle();
    std::optional<base::Result<void>> frozen;
    box.sandboxes->freeze(box.id, [&frozen](const auto& result) { frozen = result; });
    CHECK_FALSE(box.sandboxes->end_hold(box.id));
    box.settle();
    REQUIRE(frozen.has_value());
    CHECK(frozen->has_value());
    CHECK(box.status() == sandbox::Status::frozen);
    CHECK(box.stands_still());
}

TEST_CASE("hold: a sandbox that is stopped or removed meanwhile goes on to its end") {
    Box box;
    const bool stood = GENERATE(false, true);
    const bool removed = GENERATE(false, true);
    box.hold();
    if (stood)
        box.settle();
    bool done = false;
    if (removed)
        box.sandboxes->remove(box.id, [&done] { done = true; });
    else
        box.sandboxes->stop(box.id, sandbox::ExitClass::killed, "a test", [&done] { done = true; });
    CHECK_FALSE(box.stands_still());
    CHECK_FALSE(box.sandboxes->end_hold(box.id));
    box.settle();
    while (!done && box.world.timers.fire_next())
        box.settle();
    CHECK(done);
    CHECK(box.sandboxes->living() == 0);
}

TEST_CASE("hold: what cannot be frozen is told at once") {
    Box box;
    box.world.has_freezer = false;
    box.hold();
    CHECK_FALSE(box.held.has_value());
    box.settle();
    REQUIRE(box.held.has_value());
    CHECK_FALSE(box.held->has_value());
}

}  // namespace hold_test
