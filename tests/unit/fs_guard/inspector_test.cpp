// Inspection of a stopped sandbox: it is thawed in time, also if the helper does not answer.
#include "fs-guard/inspector.hpp"

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "tests/support/fake_world.hpp"

namespace inspector_test {

namespace {

using namespace atl;
using namespace std::chrono_literals;

struct Scene {
    void inspect() {
        answer.reset();
        inspector.inspect("s", [this](const auto& found) { answer = found; });
    }
    fs_guard::Inspection found() {
        REQUIRE(answer.has_value());
        REQUIRE(answer->has_value());
        return **answer;
    }

    test::FakeClock clock;
    test::FakeTimers timers{clock};
    std::function<void(base::Result<void>)> on_held;
    std::function<void(base::Result<fs_guard::Inspection>)> on_looked;
    bool stands_still = true;
    std::optional<fs_guard::Members> members = fs_guard::Members{7, {7, 8}};
    int end_hold = 0;
    std::optional<base::Result<fs_guard::Inspection>> answer;
    fs_guard::Inspector inspector{{timers,
                                   [this](const std::string&, auto done) { on_held = std::move(done); },
                                   [this](const std::string&) {
                                       ++end_hold;
                                       return stands_still;
                                   },
                                   [this](const std::string&) { return members; },
                                   [this](const std::string&, const fs_guard::Members& seen, auto done) {
                                       REQUIRE(seen.first == members->first);
                                       on_looked = std::move(done);
                                   }}};
};

}  // namespace

TEST_CASE("inspector: it is looked at while it stands still, and goes on before anyone is told") {
    Scene scene;
    scene.inspect();
    REQUIRE(scene.on_held);
    CHECK_FALSE(scene.on_looked);
    scene.on_held({});
    REQUIRE(scene.on_looked);
    CHECK(scene.end_hold == 0);
    fs_guard::Inspection seen;
    seen.tree.bytes = 7;
    scene.on_looked(seen);
    CHECK(scene.end_hold == 1);
    CHECK(scene.found().stood_still);
    CHECK(scene.found().tree.bytes == 7);
    CHECK(scene.timers.idle());
}

TEST_CASE("inspector: a sandbox whose processes are gone is not looked at") {
    Scene scene;
    scene.members.reset();
    scene.inspect();
    scene.on_held(base::Error(base::Errc::sandbox_failed, "it is not ready"));
    CHECK_FALSE(scene.answer.has_value());  // later, from the loop
    REQUIRE(scene.timers.run_deferred());
    CHECK_FALSE(scene.on_looked);
    REQUIRE(scene.answer.has_value());
    CHECK(scene.answer->error().code() == base::Errc::sandbox_gone);
    CHECK(scene.timers.idle());
}

TEST_CASE("inspector: what cannot be stopped is looked at all the same") {
    Scene scene;
    scene.inspect();
    SECTION("refused") {
        scene.on_held(base::Error(base::Errc::sandbox_failed, "no freezer"));
    }
    SECTION("without an answer") {
        REQUIRE(scene.timers.fire_next());
        CHECK(scene.end_hold == 1);
        // Too late now.
        scene.on_held({});
    }
    REQUIRE(scene.on_looked);
    scene.on_looked(fs_guard::Inspection{});
    CHECK_FALSE(scene.found().stood_still);
    CHECK(scene.timers.idle());
}

TEST_CASE("inspector: nobody stands still for longer than allowed, also if the helper never answers") {
    Scene scene;
    scene.inspect();
    scene.on_held({});
    const auto then = scene.clock.steady_now();
    REQUIRE(scene.timers.fire_next());
    CHECK(scene.end_hold == 1);
    CHECK(scene.clock.steady_now() - then == fs_guard::k_longest_standstill);
    CHECK_FALSE(scene.answer.has_value());
    scene.on_looked(fs_guard::Inspection{});
    CHECK_FALSE(scene.found().stood_still);
    CHECK(scene.end_hold == 1);
}

TEST_CASE("inspector: one that was let go on by another did not stand still") {
    Scene scene;
    scene.inspect();
    scene.on_held({});
    scene.stands_still = false;
    scene.on_looked(fs_guard::Inspection{});
    CHECK_FALSE(scene.found().stood_still);
}

TEST_CASE("inspector: an error of the helper is told, and the sandbox goes on") {
    Scene scene;
    scene.inspect();
    scene.on_held({});
    scene.on_looked(base::Error(base::Errc::storage_failed, "gone"));
    CHECK(scene.end_hold == 1);
    REQUIRE(scene.answer.has_value());
    CHECK_FALSE(scene.answer->has_value());
    SECTION("and the next look is another one") {
        scene.inspect();
        scene.on_held({});
        scene.on_looked(fs_guard::Inspection{});
        CHECK(scene.found().stood_still);
        CHECK(scene.end_hold == 2);
    }
}

}  // namespace inspector_test
