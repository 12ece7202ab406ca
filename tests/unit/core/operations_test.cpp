// Who may do something inside a sandbox, and when.
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "core/sandbox/manager.hpp"
#include "tests/support/fake_world.hpp"

namespace operations_test {

using namespace atl;
using namespace atl::test;

namespace {

struct Watcher final : sandbox::RunObserver {
    void on_started(pid_t) override {}
    void on_output(sandbox::OutputKind, std::string_view) override {}
    void on_exit(const sandbox::RunExit&) override {}
    void on_failed(const base::Error&) override { ++failures; }
    int failures = 0;
};

}  // namespace

TEST_CASE("operations are there while the sandbox is ready, and for each generation") {
    FakeWorld world{11};
    sandbox::Manager sandboxes(
        sandbox::ManagerPorts{world.clock, world.timers, world, world, world, world, world, world.node}, {});
    const auto settle = [&world] {
        while (world.timers.run_deferred() || world.run_pending()) {
        }
    };
    CHECK(sandboxes.operations("unknown") == nullptr);
    const std::string id = sandboxes.create({})->id;
    for (int generation = 0; generation < 2; ++generation) {
        CHECK(sandboxes.operations(id) == nullptr);
        sandboxes.start(id, {}, [](const auto&) {});
        CHECK(sandboxes.operations(id) == nullptr);
        settle();
        sandbox::Operations* const operations = sandboxes.operations(id);
        REQUIRE(operations != nullptr);
        CHECK(sandboxes.operations(id) == operations);
        Watcher watcher;
        Watcher cancelled;
        const auto run = operations->run({}, watcher);
        operations->run({}, cancelled).reset();
        settle();
        CHECK(watcher.failures == 1);
        CHECK(cancelled.failures == 0);
        sandboxes.stop(id, sandbox::ExitClass::exited, "", [] {});
        while (sandboxes.status(id) != sandbox::Status::terminated) {
            settle();
            (void)world.timers.fire_next();
        }
    }
}

}  // namespace operations_test
