// Runs of code mode over fakes of every port: programs, tool hosts and checks that do what a test says.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/execution/executions.hpp"
#include "tests/support/fake_world.hpp"

namespace atl::test::execution_lab {

using atl::execution::Execution;
using atl::execution::ExecutionRequest;
using atl::execution::Policy;
using Json = nlohmann::json;

/// Passes the reports of a program on to its present observer.
struct Told {
    explicit Told(execution::ProgramObserver& watcher) : now(&watcher) {}
    void become(execution::ProgramObserver& watcher) { now = &watcher; }
    void on_ready() { now->on_ready(); }
    void on_running() { now->on_running(); }
    void on_log(const std::string& level, const std::string& text) { now->on_log(level, Json(text).dump()); }
    void on_call(std::uint64_t id, const std::string& name, const std::string& args) {
        now->on_call(id, name, args);
    }
    void on_end(std::optional<std::string> value, std::optional<execution::Failure> failure) {
        now->on_end(std::move(value), std::move(failure));
    }
    void on_broken(execution::Failure failure) { now->on_broken(std::move(failure)); }
    void on_lost(const base::Error& error) { now->on_lost(error); }
    execution::ProgramObserver* now;
};

/// A program that does what the test says.
struct FakeProgram final : execution::Program {
    FakeProgram(execution::ProgramObserver& watcher, std::vector<FakeProgram*>& all)
        : observer(watcher), living(all) {
        living.push_back(this);
    }
    ~FakeProgram() override { std::erase(living, this); }
    void run(execution::ProgramSpec of, execution::ProgramObserver& watcher) override {
        spec = std::move(of);
        observer.become(watcher);
    }
    bool answer(std::uint64_t id, std::string_view value_json) override {
        if (value_json == "\"too long\"")
            return false;
        answers[id] = value_json;
        return true;
    }
    bool answer_checked(std::uint64_t id, std::string_view value_json) override {
        checked.push_back(id);
        return !value_json.empty() && answer(id, value_json);
    }
    bool answer_error(std::uint64_t id, std::string_view message) override {
        errors[id] = message;
        return true;
    }
    void hold() override { is_held = true; }
    void resume() override { is_held = false; }
    bool is_held = false;
    execution::ProgramSpec spec;
    Told observer;
    std::vector<FakeProgram*>& living;
    std::map<std::uint64_t, std::string> answers;
    std::map<std::uint64_t, std::string> errors;
    std::vector<std::uint64_t> checked;
};

struct FakePrograms final : execution::Programs {
    std::unique_ptr<execution::Program> start(sandbox::Operations&, const execution::Engine&,
                                              execution::ProgramObserver& observer) override {
        return std::make_unique<FakeProgram>(observer, living);
    }
    std::vector<FakeProgram*> living;
};

struct FakeHost final : execution::ToolHost {
    struct Call final : execution::HostedCall {
        explicit Call(int& count) : living(++count) {}
        ~Call() override { --living; }
        int& living;
    };
    bool has(std::string_view tool) const override { return tool == "own"; }
    std::unique_ptr<execution::HostedCall> call(
        const std::string&, const std::string& args,
        std::function<void(base::Result<std::string>)> done) override {
        seen.push_back(args);
        answers.push_back(std::move(done));
        return std::make_unique<Call>(living);
    }
    std::vector<std::string> seen;
    std::vector<std::function<void(base::Result<std::string>)>> answers;
    int living = 0;
};

/// Answers when the test says.
struct FakeChecks final : execution::OffloadedChecks {
    struct One final : execution::OffloadedJob {
        explicit One(int& count) : living(++count) {}
        ~One() override { --living; }
        int& living;
    };
    Work verify(const std::string&, std::span<const execution::ToolSpec>, Done<std::string>) override {
        return nullptr;
    }
    Work declare(const std::string&, std::span<const execution::ToolSpec>, Done<std::string>) override {
        return nullptr;
    }
    Work check(const std::string& user, const std::string& tool, const std::string& schema_json,
               const std::string& args_json, Done<void> done) override {
        asked.push_back(user + " " + tool + " " + schema_json + " " + std::to_string(args_json.size()));
        answers.push_back(std::move(done));
        return std::make_unique<One>(living);
    }
    Work split(const std::string&, std::string_view, std::string, Done<execution::SplitJson>) override {
        return nullptr;
    }
    Work read_value(const std::string& user, std::string json, Done<std::string> done) override {
        asked.push_back(user + " value " + std::to_string(json.size()));
        values.push_back(std::move(done));
        return std::make_unique<One>(living);
    }
    std::vector<std::string> asked;
    std::vector<Done<void>> answers;
    std::vector<Done<std::string>> values;
    int living = 0;
};

inline execution::Engine engine_named(const std::string& name) {
    execution::Engine engine;
    engine.name = name;
    engine.languages = {execution::Language::javascript};
    engine.folder = "/engines";
    return engine;
}

struct Lab {
    explicit Lab(std::size_t places = 100, base::QueueLimits queue = {})
        : sandboxes({world.clock, world.timers, world, world, world, world, world, world.node},
                    settings_of(places)),
          executions({budgets.results, world.clock, world.timers, sandboxes, programs, &checks},
                     execution::Engines({engine_named("container")}), {512, queue},
                     [this](const sandbox::Demand& demand) { return sandboxes.room_for(demand); }) {}

    /// Handlers that still wait hold runs, whose destructors need this world: they end first.
    ~Lab() { settle(); }
    Lab(const Lab&) = delete;
    Lab& operator=(const Lab&) = delete;

    static sandbox::ManagerSettings settings_of(std::size_t places) {
        sandbox::ManagerSettings settings;
        settings.max_sandboxes = places;
        settings.host_env = {{"PATH", "/usr/bin"}, {"ANTHROPIC_API_KEY", "secret"}};
        return settings;
    }
    ExecutionRequest request(const std::string& user = "") {
        ExecutionRequest request;
        request.engine = &executions.engines().all()[0];
        request.code = "return 1";
        if (!user.empty()) {
            request.user_id = user;
            request.holder = base::ShareHolder::user(user);
        }
        return request;
    }
    /// Offers tools: `free`, `asks` and `no` of the three policies, and `own` of the host.
    ExecutionRequest with_tools() {
        ExecutionRequest made = request();
        const std::vector<execution::ToolSpec> specs{
            {"free", "", R"({"type":"array","maxItems":2})", Policy::allow},
            {"asks", "", "", Policy::ask},
            {"no", "", "", Policy::deny},
            {"own", "", "", Policy::allow}};
        made.tools.emplace(execution::ToolSet::make(specs).value());
        for (const auto& spec : specs)
            made.tool_names.push_back(spec.name);
        made.host = host;
        return made;
    }
    std::shared_ptr<Execution> begin(ExecutionRequest wanted) {
        auto begun = executions.begin(std::move(wanted));
        REQUIRE(begun.has_value());
        return *begun;
    }
    /// Until a program runs.
    FakeProgram& started(const std::shared_ptr<Execution>& execution) {
        settle();
        REQUIRE(execution->state() == Execution::State::running);
        REQUIRE(!programs.living.empty());
        programs.living.back()->observer.on_running();
        return *programs.living.back();
    }
    void settle() {
        while (world.timers.run_deferred() || world.run_pending()) {
        }
    }
    /// Until nothing happens within this time.
    void pass(base::Millis time) {
        world.timers.advance(time, [this] { settle(); });
        settle();
    }
    static Json result(const Execution& execution) {
        std::string out;
        execution.write_result(out);
        return Json::parse(out);
    }
    static std::vector<std::string> types(const Execution& execution) {
        std::vector<std::string> all;
        for (const auto& event : execution.events(0)) {
            std::string text;
            event.write(text);
            const Json json = Json::parse(text);
            CHECK(json["seq"] == all.size() + 1);
            all.push_back(json["type"]);
        }
        return all;
    }

    base::Budgets budgets;
    FakeWorld world{7};
    sandbox::Manager sandboxes;
    FakePrograms programs;
    FakeChecks checks;
    std::shared_ptr<FakeHost> host = std::make_shared<FakeHost>();
    execution::Executions executions;
};

}  // namespace atl::test::execution_lab
