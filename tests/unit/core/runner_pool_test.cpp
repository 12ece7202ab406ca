// Runners of code mode that are started ahead, over fakes of every port.
#include "core/execution/runner_pool.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "core/base/execution_limits.hpp"
#include "core/execution/executions.hpp"
#include "tests/support/fake_world.hpp"

namespace runner_pool_test {

using namespace atl;
using namespace atl::test;
using execution::Execution;
using execution::ExecutionRequest;
using From = execution::RunnerPoolSize::From;

namespace {

struct PoolPrograms final : execution::Programs {
    struct One final : execution::Program {
        One(PoolPrograms& of, std::string name, execution::ProgramObserver& watcher)
            : all(of), engine(std::move(name)), observer(&watcher) {
            all.living.push_back(this);
        }
        ~One() override { std::erase(all.living, this); }
        void run(execution::ProgramSpec, execution::ProgramObserver& watcher) override {
            REQUIRE_FALSE(is_used);
            is_used = true;
            observer = &watcher;
            if (is_ready)
                observer->on_running();
        }
        bool answer(std::uint64_t, std::string_view) override { return false; }
        bool answer_checked(std::uint64_t, std::string_view) override { return false; }
        bool answer_error(std::uint64_t, std::string_view) override { return false; }
        void hold() override {}
        void resume() override {}
        PoolPrograms& all;
        const std::string engine;
        execution::ProgramObserver* observer;
        bool is_ready = false;
        bool is_used = false;
    };
    std::unique_ptr<execution::Program> start(sandbox::Operations&, const execution::Engine& engine,
                                              execution::ProgramObserver& observer) override {
        started.push_back(engine.name);
        return std::make_unique<One>(*this, engine.name, observer);
    }
    std::vector<One*> living;
    std::vector<std::string> started;
};

struct Lab {
    explicit Lab(std::vector<execution::RunnerPoolSize> pools, std::size_t places = 100)
        : Lab(std::move(pools), settings_of(places)) {}
    Lab(std::vector<execution::RunnerPoolSize> pools, sandbox::ManagerSettings settings,
        std::uint32_t memory_mb = base::k_default_execution_memory_mb)
        : sandboxes({world.clock, world.timers, world, world, world, world, world, world.node,
                     [this] { return host; }},
                    std::move(settings)),
          executions({budgets.results, world.clock, world.timers, sandboxes, programs},
                     execution::Engines({engine_named("isolated-vm"), engine_named("container")}),
                     {512, {}, std::move(pools), memory_mb},
                     [this](const sandbox::Demand& demand) { return sandboxes.room_for(demand); }) {
        executions.open_pool();
    }
    ~Lab() { settle(); }
    Lab(const Lab&) = delete;
    Lab& operator=(const Lab&) = delete;

    static sandbox::ManagerSettings settings_of(std::size_t places) {
        sandbox::ManagerSettings settings;
        settings.max_sandboxes = places;
        return settings;
    }
    static execution::Engine engine_named(const std::string& name) {
        execution::Engine engine;
        engine.name = name;
        engine.languages = {execution::Language::javascript};
        engine.folder = "/engines";
        return engine;
    }
    std::shared_ptr<Execution> begin(std::size_t engine = 0, std::uint32_t memory_mb = 128,
                                     std::uint32_t cpu_percent = 100,
                                     ExecutionRequest::Choice choice = ExecutionRequest::Choice::named) {
        ExecutionRequest request;
        request.choice = choice;
        request.engine = &executions.engines().all()[engine];
        request.code = "return 1";
        request.memory_mb = memory_mb;
        request.cpu_percent = cpu_percent;
        auto begun = executions.begin(std::move(request));
        REQUIRE(begun.has_value());
        return *begun;
    }
    /// With the first engine, which the request did not name.
    std::shared_ptr<Execution> begin_automatic() {
        return begin(0, 128, 100, ExecutionRequest::Choice::automatic);
    }
    void settle() {
        while (world.timers.run_deferred() || world.run_pending()) {
        }
    }
    /// So much time, with every engine that is not ready made ready if `ready`.
    void pass(base::Millis time, bool ready = true) {
        world.timers.advance(time, [&] {
            settle();
            if (ready)
                make_ready();
        });
        settle();
    }
    void make_ready() {
        for (std::size_t at = 0; at < programs.living.size(); ++at) {
            auto& one = *programs.living[at];
            if (one.engine == hanging || std::exchange(one.is_ready, true))
                continue;
            if (one.is_used)
                one.observer->on_running();
            else
                one.observer->on_ready();
        }
    }
    std::size_t ready(std::size_t pool = 0) { return executions.pool().states().at(pool).ready; }

    base::Budgets budgets;
    FakeWorld world{7};
    sandbox::HostMemory host{1000, 1000};
    sandbox::Manager sandboxes;
    PoolPrograms programs;
    std::string hanging;  // an engine that never becomes ready
    execution::Executions executions;
};

constexpr base::Millis k_while{5000};

}  // namespace

TEST_CASE("pooled: a run gets a runner that was started ahead, at once and for itself, and it is replaced") {
    Lab lab({{"container", 2, From::start}});
    lab.pass(k_while);
    REQUIRE(lab.ready() == 2);
    CHECK(lab.sandboxes.living() == 2);
    CHECK(lab.world.workspaces.empty());
    const auto first = lab.begin(1);
    CHECK(first->state() == Execution::State::running);
    CHECK(lab.ready() == 1);
    const auto second = lab.begin(1);
    CHECK(second->state() == Execution::State::running);
    CHECK(lab.executions.begun_pooled() == 2);
    const auto third = lab.begin(1);
    CHECK(third->state() == Execution::State::starting);
    CHECK(lab.executions.begun_cold() == 1);
    lab.pass(k_while);
    CHECK(lab.ready() == 2);
    CHECK(lab.programs.started.size() == 5);
    first->cancel("");
    second->cancel("");
    third->cancel("");
    lab.settle();
    CHECK(lab.sandboxes.living() == 2);
    lab.executions.shut_down();
    lab.settle();
    CHECK(lab.sandboxes.living() == 0);
    CHECK(lab.programs.living.empty());
    CHECK(lab.world.uids.empty());
    lab.pass(k_while);
    CHECK(lab.sandboxes.living() == 0);
}

TEST_CASE("pooled: by default the first run on the default engine opens its pool, and 0 switches it off") {
    Lab lab({{"auto", 1, From::first_run}});
    lab.pass(k_while);
    CHECK(lab.programs.started.empty());
    lab.begin(1)->cancel("");
    lab.pass(k_while);
    CHECK(lab.programs.started.empty());
    lab.begin(0)->cancel("");
    lab.pass(k_while);
    CHECK(lab.ready() == 1);
    CHECK(lab.begin(0)->state() == Execution::State::running);
    Lab off({{"auto", 0, From::start}});
    off.begin(0)->cancel("");
    off.pass(k_while);
    CHECK(off.executions.pool().states().empty());
    CHECK(off.sandboxes.living() == 0);
}

TEST_CASE("pooled: an engine that is named twice, once as auto, has one pool, the larger") {
    Lab lab({{"auto", 1, From::first_run}, {"isolated-vm", 2, From::start}});
    lab.pass(k_while);
    CHECK(lab.executions.pool().states().size() == 1);
    CHECK(lab.ready() == 2);
    CHECK(lab.sandboxes.living() == 2);
}

TEST_CASE("pooled: a user who waits in line does not keep the pool from being filled") {
    Lab lab({{"container", 1, From::start}});
    for (int i = 0; i < 5; ++i)
        (void)lab.begin(1);
    lab.pass(k_while);
    CHECK(lab.ready() == 1);
}

TEST_CASE("pooled: limits of a run are set before its program is given, or it gets none of the pool") {
    Lab lab({{"container", 1, From::start}});
    lab.pass(k_while);
    const auto small = lab.begin(1, 64);
    CHECK(small->state() == Execution::State::starting);
    CHECK(lab.ready() == 1);
    small->cancel("");
    lab.settle();
    CHECK(lab.sandboxes.committed_memory_mb() == 128);
    const auto large = lab.begin(1, 300, 50);
    CHECK(large->state() == Execution::State::running);
    CHECK(lab.sandboxes.committed_memory_mb() == 300);
}

TEST_CASE(
    "pooled: where the server's ceiling is below the default, runners have what runs get that name none") {
    Lab lab({{"container", 1, From::start}}, Lab::settings_of(100), 96);
    lab.pass(k_while);
    CHECK(lab.sandboxes.committed_memory_mb() == 96);
    CHECK(lab.begin(1, 96)->state() == Execution::State::running);
}

TEST_CASE("pooled: what waits gives way to runs and counts until it is gone") {
    Lab lab({{"container", 2, From::start}}, 2);
    lab.pass(k_while);
    REQUIRE(lab.sandboxes.living() == 2);
    const auto other = lab.begin(0);
    CHECK(other->state() == Execution::State::waiting);
    lab.settle();
    lab.make_ready();
    CHECK(other->state() == Execution::State::running);
    CHECK(lab.sandboxes.living() == 2);
    const auto own = lab.begin(1);
    CHECK(own->state() == Execution::State::running);
    CHECK(lab.executions
              .begin([&] {
                  ExecutionRequest request;
                  request.engine = &lab.executions.engines().all()[0];
                  return request;
              }())
              .error()
              .code() == base::Errc::capacity);
    lab.pass(k_while);
    CHECK(lab.sandboxes.living() == 2);
    own->cancel("");
    lab.pass(k_while);
    CHECK(lab.ready() == 1);
    // Somebody else asks for its place.
    REQUIRE(lab.executions.can_spare());
    CHECK(lab.executions.spare().has_value());
    CHECK_FALSE(lab.executions.can_spare());
    lab.settle();
    CHECK(lab.sandboxes.living() == 1);
    // A run that is cancelled while a place is made for it leaves nothing.
    lab.pass(k_while);
    const auto late = lab.begin(0);
    late->cancel("");
    lab.settle();
    CHECK(late->has_ended());
    CHECK(lab.sandboxes.living() == 1);
}

TEST_CASE("pooled: the place of a runner that gives way is the run's, whoever else waits for one") {
    for (const std::string how : {"ready", "its engine starts", "its sandbox starts"}) {
        CAPTURE(how);
        Lab lab({{"container", 1, From::start}}, 1);
        if (how == "its sandbox starts")
            lab.world.timers.advance(base::Millis{1}, [] {});
        else
            lab.pass(k_while, how == "ready");
        REQUIRE(lab.sandboxes.living() == 1);
        REQUIRE(lab.ready() == (how == "ready" ? 1U : 0U));
        // Takes each place in the moment in which it is told of it, as a pool of agents does.
        struct Greedy final : sandbox::Observer {
            explicit Greedy(Lab& of) : lab(of) { lab.sandboxes.set_observer(this); }
            ~Greedy() override { lab.sandboxes.set_observer(nullptr); }
            void on_sandbox_exit(const std::string&, std::uint32_t, const sandbox::Exit&) override {}
            void on_resource_warning(const std::string&, std::string_view, std::uint64_t,
                                     std::uint64_t) override {}
            void on_agent_exit(const std::string&, std::uint32_t, const std::string&) override {}
            void on_capacity(const std::string&) override {
                if (lab.sandboxes.room_for({}))
                    ++chances;
            }
            Lab& lab;
            int chances = 0;
        } greedy(lab);
        const auto run = lab.begin(0);
        CHECK(run->state() == Execution::State::waiting);
        lab.settle();
        CHECK(run->state() != Execution::State::waiting);
        CHECK_FALSE(run->refusal().has_value());
        CHECK(greedy.chances == 0);
        run->cancel("");
        lab.settle();
        CHECK(greedy.chances > 0);
    }
}

TEST_CASE("pooled: a runner's place and memory are its user's once it is taken, within the user's share") {
    sandbox::ManagerSettings settings = Lab::settings_of(20);
    settings.max_memory_mb = 200'000;
    Lab lab({{"container", 1, From::start}}, settings);
    lab.pass(k_while);
    REQUIRE(lab.ready() == 1);
    CHECK(lab.sandboxes.places().used() == 0);
    const auto ann = base::ShareHolder::user("ann");
    const auto begin = [&] {
        ExecutionRequest request;
        request.engine = &lab.executions.engines().all()[1];
        request.memory_mb = 128;
        request.holder = ann;
        return lab.executions.begin(std::move(request));
    };
    const auto run = begin();
    REQUIRE(run.has_value());
    CHECK(lab.executions.begun_pooled() == 1);
    CHECK(lab.sandboxes.places().held_by(ann) == 1);
    CHECK(lab.sandboxes.memory().held_by(ann) == 128);
    lab.pass(k_while);
    REQUIRE(lab.ready() == 1);
    std::vector<std::unique_ptr<sandbox::Reservation>> others;
    while (lab.sandboxes.places().room(ann) > 0)
        others.push_back(lab.sandboxes.reserve({{}, ann}));
    CHECK(begin().error().code() == base::Errc::user_share);
    CHECK(lab.ready() == 1);
    others.clear();
    sandbox::Limits rest;
    rest.memory_mb = 100'000 - 128;
    others.push_back(lab.sandboxes.reserve({rest, ann}));
    REQUIRE(others.back() != nullptr);
    CHECK(begin().error().code() == base::Errc::user_share);
    CHECK(lab.ready() == 1);
    others.clear();
    (*run)->cancel("");
    lab.settle();
    CHECK(lab.sandboxes.places().used() == 0);
    CHECK(lab.sandboxes.memory().used() == 0);
}

TEST_CASE("pooled: runners give way only to a run that then has room") {
    sandbox::ManagerSettings settings;
    settings.max_memory_mb = 600;
    Lab lab({{"container", 3, From::start}}, settings);
    lab.pass(k_while);
    REQUIRE(lab.ready() == 3);
    const auto neighbour = lab.begin(0, 128);
    lab.pass(base::Millis{100});
    REQUIRE(neighbour->state() == Execution::State::running);
    REQUIRE(lab.sandboxes.committed_memory_mb() == 512);
    ExecutionRequest request;
    request.engine = lab.executions.engines().all().data();
    request.memory_mb = 500;
    CHECK(lab.executions.begin(std::move(request)).error().code() == base::Errc::capacity);
    CHECK(lab.ready() == 3);
    // The large run ends no more runners than it needs.
    const auto large = lab.begin(0, 340);
    lab.pass(base::Millis{100});
    CHECK(large->state() == Execution::State::running);
    CHECK(lab.ready() == 1);
    CHECK(lab.sandboxes.committed_memory_mb() == 128 + 340 + 128);
}

TEST_CASE(
    "pooled: a runner grows within what is left, reservations counted, and not on a host short of memory") {
    sandbox::ManagerSettings settings;
    settings.max_memory_mb = 400;
    settings.memory_reserve = 0.1;
    Lab lab({{"container", 1, From::start}}, settings);
    lab.pass(k_while);
    REQUIRE(lab.ready() == 1);
    const auto& pool = lab.executions.pool();
    const execution::Engine& engine = lab.executions.engines().all()[1];
    CHECK(pool.has(engine, execution::limits_of_run(400, 100)));
    {
        const auto kept = lab.sandboxes.reserve({execution::limits_of_run(150, 100)});
        CHECK(pool.has(engine, execution::limits_of_run(250, 100)));
        CHECK_FALSE(pool.has(engine, execution::limits_of_run(251, 100)));
    }
    lab.host.available_bytes = 50;
    CHECK_FALSE(pool.has(engine, execution::limits_of_run(250, 100)));
    CHECK(pool.has(engine, execution::limits_of_run(128, 100)));
}

TEST_CASE("pooled: a pool that gave way is not filled again at once") {
    Lab lab({{"container", 1, From::start}});
    lab.pass(k_while);
    REQUIRE(lab.executions.spare().has_value());
    lab.pass(base::Millis{2000});
    CHECK(lab.programs.started.size() == 1);
    lab.pass(k_while);
    CHECK(lab.ready() == 1);
}

TEST_CASE("pooled: an engine that does not start is tried ever less often, and takes no run with it") {
    Lab lab({{"container", 1, From::start}});
    const auto starts_within = [&](base::Millis time, const char* how) {
        const std::size_t before = lab.programs.started.size();
        for (base::Millis passed{0}; passed < time; passed += base::Millis{100}) {
            lab.pass(base::Millis{100}, false);
            while (!lab.programs.living.empty() && std::string(how) == "breaks") {
                lab.programs.living.back()->observer->on_broken({"crashed", "it ended", std::nullopt});
                lab.settle();
            }
        }
        return lab.programs.started.size() - before;
    };
    SECTION("it ends") {
        CHECK(starts_within(base::Millis{60'000}, "breaks") < 8);
        CHECK(starts_within(base::Millis{600'000}, "breaks") < 12);
        CHECK(lab.sandboxes.living() == 0);
    }
    SECTION("it never says that it is ready") {
        const auto starts = starts_within(base::Millis{120'000}, "hangs");
        CHECK(starts > 1);
        CHECK(starts < 6);
        CHECK(lab.ready() == 0);
    }
    SECTION("its sandbox does not start") {
        lab.world.failure_per_mille = 1000;
        lab.pass(base::Millis{60'000});
        CHECK(lab.programs.started.empty());
        lab.world.failure_per_mille = 0;
        lab.pass(base::Millis{120'000});
        CHECK(lab.ready() == 1);
    }
}

TEST_CASE("An engine that ends before it is ready is unavailable for a while, and `auto` takes another one") {
    const auto breaks = [](Lab& lab) {
        REQUIRE_FALSE(lab.programs.living.empty());
        lab.programs.living.back()->observer->on_broken({"crashed", "it has no addon", std::nullopt});
        lab.settle();
    };
    const auto chosen = [](Lab& lab) {
        std::optional<execution::Language> language;
        return lab.executions.engines().choose("auto", language).value()->name;
    };
    SECTION("in a run") {
        Lab lab(std::vector<execution::RunnerPoolSize>{});
        lab.begin();
        lab.begin();
        lab.settle();
        CHECK(chosen(lab) == "isolated-vm");
        breaks(lab);
        CHECK(chosen(lab) == "container");
        const execution::Engine& engine = lab.executions.engines().all()[0];
        CHECK(engine.reason.find("it has no addon") != std::string::npos);
        std::optional<execution::Language> language;
        CHECK(lab.executions.engines().choose("isolated-vm", language).error().code() ==
              base::Errc::executor_unavailable);
        SECTION("it is tried again") {
            lab.pass(base::k_engine_rest, false);
            CHECK(chosen(lab) == "isolated-vm");
        }
        SECTION("another run shows that it works") {
            lab.make_ready();
            CHECK(chosen(lab) == "isolated-vm");
        }
        SECTION("a run that named it and whose turn comes meanwhile is refused") {
            const auto late = lab.begin();
            REQUIRE(late->refusal());
            CHECK(late->refusal()->code() == base::Errc::executor_unavailable);
        }
        SECTION("one that named none gets another one, as long as there is one") {
            const auto late = lab.begin_automatic();
            REQUIRE_FALSE(late->refusal());
            CHECK(late->engine().name == "container");
            lab.settle();
            CHECK(lab.programs.started.back() == "container");
            breaks(lab);
            const auto later = lab.begin_automatic();
            REQUIRE(later->refusal());
            CHECK(later->refusal()->code() == base::Errc::executor_unavailable);
            CHECK(later->refusal()->detail().starts_with("No executor for javascript"));
        }
    }
    SECTION("also when a run ends whose engine was ready before") {
        Lab lab(std::vector<execution::RunnerPoolSize>{});
        const auto old = lab.begin();
        lab.settle();
        lab.make_ready();
        lab.begin();
        lab.settle();
        breaks(lab);
        CHECK(chosen(lab) == "container");
        old->cancel("");
        lab.settle();
        CHECK(chosen(lab) == "container");
    }
    SECTION("in the pool") {
        Lab lab({{"isolated-vm", 1, From::start}});
        lab.pass(base::Millis{100}, false);
        breaks(lab);
        CHECK(chosen(lab) == "container");
        lab.pass(k_while);
        CHECK(lab.ready() == 1);
        CHECK(chosen(lab) == "isolated-vm");
    }
    SECTION("also on a server where runs have little memory by default") {
        const bool is_pooled = GENERATE(true, false);
        Lab lab({{"isolated-vm", is_pooled ? 1U : 0U, From::start}}, Lab::settings_of(100), 96);
        lab.pass(base::Millis{100}, false);
        if (!is_pooled) {
            lab.begin(0, 64);
            lab.settle();
            breaks(lab);
            CHECK(chosen(lab) == "isolated-vm");
            lab.begin(0, 96);
            lab.settle();
        }
        breaks(lab);
        CHECK(chosen(lab) == "container");
        CHECK(execution::ExecutionSettings{.max_memory_mb = 100}.memory_of_default_run() == 100);
    }
    SECTION("but not in a pool whose runners reach their limit") {
        Lab lab({{"isolated-vm", 1, From::start}});
        lab.pass(base::Millis{100}, false);
        lab.world.oom_kills = 1;
        breaks(lab);
        lab.world.oom_kills = 0;
        CHECK(chosen(lab) == "isolated-vm");
        lab.pass(k_while);
        CHECK(lab.ready() == 1);
    }
    SECTION("but not for a program, or for little memory") {
        Lab lab(std::vector<execution::RunnerPoolSize>{});
        lab.begin();
        lab.settle();
        lab.make_ready();
        breaks(lab);
        CHECK(chosen(lab) == "isolated-vm");
        lab.begin(0, 64);
        lab.settle();
        breaks(lab);
        CHECK(chosen(lab) == "isolated-vm");
    }
}

TEST_CASE("pooled: an engine that hangs at its start delays only its own runners") {
    Lab lab({{"isolated-vm", 2, From::start}, {"container", 2, From::start}});
    lab.hanging = "isolated-vm";
    const auto started = [&](const std::string& engine) {
        return std::ranges::count(lab.programs.started, engine);
    };
    lab.pass(k_while);
    CHECK(lab.ready(0) == 0);
    CHECK(started("isolated-vm") == 1);
    CHECK(lab.ready(1) == 2);
    CHECK(lab.sandboxes.living() == 3);
    // A runner that is taken is replaced meanwhile.
    const auto run = lab.begin(1);
    REQUIRE(run->state() == Execution::State::running);
    lab.pass(base::Millis{100});
    CHECK(lab.ready(1) == 2);
    CHECK(started("isolated-vm") == 1);
    // A runner that hangs counts, and gives way before those that are ready.
    CHECK(lab.executions.pool().held().sandboxes == 3);
    REQUIRE(lab.executions.spare().has_value());
    lab.settle();
    CHECK(lab.ready(1) == 2);
    CHECK(lab.executions.pool().held().sandboxes == 2);
    lab.hanging.clear();
    lab.pass(3 * k_while);
    CHECK(lab.ready(0) == 2);
    CHECK(lab.ready(1) == 2);
}

TEST_CASE("pooled: a runner whose sandbox dies is replaced and given to nobody") {
    Lab lab({{"container", 1, From::start}});
    lab.pass(k_while);
    REQUIRE(lab.ready() == 1);
    lab.world.process_dies(lab.world.processes.begin()->second,
                           {sandbox::ExitClass::oom, 9, "the host is short of memory"});
    lab.settle();
    CHECK(lab.ready() == 0);
    CHECK(lab.programs.living.empty());
    const auto run = lab.begin(1);
    CHECK(run->state() == Execution::State::starting);
    lab.pass(k_while);
    CHECK(lab.ready() == 1);
    // A runner that a run has taken belongs to that run.
    const auto taken = lab.begin(1);
    REQUIRE(taken->state() == Execution::State::running);
    lab.programs.living.back()->observer->on_end("3", std::nullopt);
    lab.settle();
}

}  // namespace runner_pool_test
