// Engines of code mode that the operator installs while the server runs.
#include <catch2/catch_test_macros.hpp>

#include "core/base/execution_limits.hpp"
#include "tests/unit/core/execution_lab.hpp"

namespace engines_found_test {

using namespace atl;
using namespace atl::test;
using execution::Engines;
using execution::Language;

namespace {

execution::Engine engine_on_host(const std::string& name, Language language, const std::string& reason = "") {
    execution::Engine engine;
    engine.name = name;
    engine.languages = {language};
    engine.folder = "/engines";
    engine.reason = reason;
    return engine;
}

/// A host on which the engine of JavaScript is not installed yet.
struct Lab {
    explicit Lab(std::vector<execution::RunnerPoolSize> pools = {})
        : sandboxes({world.clock, world.timers, world, world, world, world, world, world.node},
                    settings_with_room()),
          executions(
              {budgets.results, world.clock, world.timers, sandboxes, programs}, Engines(host),
              {512, {}, std::move(pools)},
              [this](const sandbox::Demand& demand) { return sandboxes.room_for(demand); },
              [this]() -> base::Result<Engines> {
                  ++looks;
                  return Engines(host);
              }) {
        executions.open_pool();
    }
    ~Lab() { pass(base::Millis{0}); }
    Lab(const Lab&) = delete;
    Lab& operator=(const Lab&) = delete;

    static sandbox::ManagerSettings settings_with_room() {
        sandbox::ManagerSettings settings;
        settings.max_sandboxes = 100;
        return settings;
    }
    void install() {
        host[0].reason.clear();
        host[0].version = "22";
    }
    /// The engine for a program of JavaScript, or why there is none.
    std::string chosen() {
        std::optional<Language> language;
        const auto engine = executions.choose("auto", language);
        return engine ? (*engine)->name : engine.error().detail();
    }
    void pass(base::Millis time) {
        const auto settle = [this] {
            while (world.timers.run_deferred() || world.run_pending()) {
            }
        };
        world.timers.advance(time, settle);
        settle();
    }

    std::vector<execution::Engine> host{engine_on_host("container", Language::javascript, "not installed"),
                                        engine_on_host("python", Language::python)};
    int looks = 0;
    base::Budgets budgets;
    FakeWorld world{7};
    sandbox::Manager sandboxes;
    execution_lab::FakePrograms programs;
    execution::Executions executions;
};

}  // namespace

TEST_CASE("An engine that is installed while the server runs is found by the next program that lacks it") {
    Lab lab;
    const execution::Engine& container = lab.executions.engines().all()[0];
    CHECK(lab.chosen().find("not installed") != std::string::npos);
    CHECK(lab.looks == 1);
    lab.install();
    // The host is not looked at for every request.
    CHECK(lab.chosen().find("not installed") != std::string::npos);
    CHECK(lab.looks == 1);
    lab.pass(base::k_engine_look_pause);
    // A program that lacks nothing looks for nothing.
    std::optional<Language> python = Language::python;
    CHECK(lab.executions.choose("auto", python).has_value());
    CHECK(lab.looks == 1);
    CHECK(lab.chosen() == "container");
    CHECK(lab.looks == 2);
    CHECK(container.version == "22");
    CHECK(lab.executions.engines().languages() == std::vector{Language::javascript, Language::python});
    // Once nothing is missing, nobody looks.
    lab.pass(base::k_engine_look_pause);
    lab.executions.engines_now();
    CHECK(lab.looks == 2);
}

TEST_CASE("A list of the engines finds what was installed, and starts the runners that were asked for") {
    Lab lab(std::vector<execution::RunnerPoolSize>{{"auto", 1, execution::RunnerPoolSize::From::start}});
    lab.pass(base::Millis{1000});
    CHECK(lab.programs.living.empty());
    lab.install();
    CHECK(lab.executions.engines_now().all()[0].is_available());
    lab.pass(base::Millis{1000});
    CHECK(lab.programs.living.size() == 1);
}

TEST_CASE("An engine that ended at its start rests, although its package is there") {
    Lab lab;
    lab.install();
    const execution::Engine& container = lab.executions.engines_now().all()[0];
    execution::ExecutionRequest request;
    request.engine = &container;
    request.code = "return 1";
    const auto run = lab.executions.begin(std::move(request));
    REQUIRE(run.has_value());
    lab.pass(base::Millis{0});
    REQUIRE(lab.programs.living.size() == 1);
    lab.programs.living.back()->observer.on_broken({"crashed", "it has no addon", std::nullopt});
    lab.pass(base::k_engine_look_pause);
    lab.executions.engines_now();
    CHECK(lab.looks == 2);
    CHECK(container.reason.find("it has no addon") != std::string::npos);
    lab.pass(base::k_engine_rest);
    CHECK(container.is_available());
}

}  // namespace engines_found_test
