// Runs of code mode over fakes of every port: the line, the end of a run whatever brings it about, calls of
// tools, and what is kept.
#include "core/execution/executions.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/fake_world.hpp"

namespace executions_test {

using namespace atl;
using namespace atl::test;
using execution::Execution;
using execution::ExecutionRequest;
using execution::Policy;
using Json = nlohmann::json;

namespace {

/// Whoever is told of a program now.
struct Told {
    explicit Told(execution::ProgramObserver& watcher) : now(&watcher) {}
    void become(execution::ProgramObserver& watcher) { now = &watcher; }
    void on_ready() { now->on_ready(); }
    void on_running() { now->on_running(); }
    void on_log(const std::string& level, const std::string& text) { now->on_log(level, text); }
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
    bool answer_error(std::uint64_t id, std::string_view message) override {
        errors[id] = message;
        return true;
    }
    void hold() override { is_held = true; }
    void go_on() override { is_held = false; }
    bool is_held = false;
    execution::ProgramSpec spec;
    Told observer;
    std::vector<FakeProgram*>& living;
    std::map<std::uint64_t, std::string> answers;
    std::map<std::uint64_t, std::string> errors;
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
struct FakeChecks final : execution::HeavyChecks {
    struct One final : execution::HeavyWork {
        explicit One(int& count) : living(++count) {}
        ~One() override { --living; }
        int& living;
    };
    Work verify(const std::string&, std::span<const execution::ToolSpec>, Done<void>) override {
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
    std::vector<std::string> asked;
    std::vector<Done<void>> answers;
    int living = 0;
};

execution::Engine engine_named(const std::string& name) {
    execution::Engine engine;
    engine.name = name;
    engine.languages = {execution::Language::javascript};
    engine.folder = "/engines";
    return engine;
}

struct Lab {
    explicit Lab(std::size_t places = 100, execution::QueueLimits queue = {})
        : sandboxes({world.clock, world.timers, world, world, world, world, world, world.node},
                    settings_of(places)),
          executions({world.clock, world.timers, sandboxes, programs, &checks},
                     execution::Engines({engine_named("container")}), {512, queue},
                     [this](const sandbox::Limits& limits) { return sandboxes.room_for(limits); }) {}

    /// What is under way keeps runs, which need this world to go.
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
        if (!user.empty())
            request.user_id = user;
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

    FakeWorld world{7};
    sandbox::Manager sandboxes;
    FakePrograms programs;
    FakeChecks checks;
    std::shared_ptr<FakeHost> host = std::make_shared<FakeHost>();
    execution::Executions executions;
};

}  // namespace

TEST_CASE("A run has a sandbox of its own without a workspace, tells what happens, and leaves nothing") {
    Lab lab;
    const auto execution = lab.begin(lab.request());
    CHECK_FALSE(execution->has_begun());
    FakeProgram& program = lab.started(execution);
    CHECK(lab.sandboxes.living() == 1);
    CHECK(lab.world.workspaces.empty());
    CHECK(lab.world.node.facts.empty());
    CHECK(program.spec.code == "return 1");
    program.observer.on_log("log", "hello");
    lab.world.clock.advance(base::Millis{25});
    program.observer.on_end("3", std::nullopt);
    CHECK(lab.types(*execution) == std::vector<std::string>{"start", "log", "result", "done"});
    const Json result = lab.result(*execution);
    CHECK(result["result"] == 3);
    CHECK_FALSE(result.contains("error"));
    CHECK(result["logs"] == Json::parse(R"([{"level":"log","text":"hello"}])"));
    CHECK(result["durationMs"] == 25);
    CHECK(result["executor"] == "container");
    lab.settle();
    CHECK(lab.programs.living.empty());
    CHECK(lab.sandboxes.living() == 0);
    CHECK(lab.world.uids.empty());
    CHECK(lab.world.groups.empty());
    CHECK(lab.sandboxes.stats().by_status[sandbox::Status::terminated] == 0);
}

TEST_CASE(
    "A run that does not end in time ends as timeout with its logs, and one without an engine as crashed") {
    Lab lab;
    const auto slow = lab.begin(lab.request());
    lab.started(slow).observer.on_log("warn", "still here");
    lab.pass(base::k_default_execution_time - base::Millis{1});
    CHECK_FALSE(slow->has_ended());
    lab.pass(base::Millis{1});
    CHECK(lab.result(*slow)["error"]["kind"] == "timeout");
    CHECK(lab.result(*slow)["logs"].size() == 1);
    const auto silent = lab.begin(lab.request());
    lab.settle();
    lab.pass(base::k_engine_ready_deadline);
    CHECK(lab.result(*silent)["error"]["kind"] == "crashed");
    CHECK(lab.sandboxes.living() == 0);
}

TEST_CASE("What ends the sandbox of a run is the error of the run") {
    Lab lab;
    const auto execution = lab.begin(lab.request());
    FakeProgram& program = lab.started(execution);
    const auto process = lab.world.processes.begin()->second;
    SECTION("the memory limit, told after the connection broke") {
        program.observer.on_lost(base::Error(base::Errc::bridge_failed, "the guest is gone"));
        CHECK_FALSE(execution->has_ended());
        lab.world.process_dies(process, {sandbox::ExitClass::oom, 9, "memory"});
        lab.settle();
        CHECK(lab.result(*execution)["error"]["kind"] == "memory");
    }
    SECTION("anything else") {
        lab.world.process_dies(process, {sandbox::ExitClass::signalled, 9, "killed"});
        lab.settle();
        CHECK(lab.result(*execution)["error"]["kind"] == "crashed");
    }
    SECTION("nothing that is ever told") {
        program.observer.on_lost(base::Error(base::Errc::bridge_failed, "the guest is gone"));
        lab.pass(base::Millis{10'000});
        CHECK(lab.result(*execution)["error"]["message"] == "the guest is gone");
    }
    SECTION("its engine") {
        program.observer.on_broken({"protocol", "a bad frame", std::nullopt});
        CHECK(lab.result(*execution)["error"]["kind"] == "protocol");
    }
    lab.settle();
    CHECK(lab.sandboxes.living() == 0);
    CHECK(lab.programs.living.empty());
}

TEST_CASE("A run is cancelled in every state, and nothing of it is left") {
    Lab lab(100, {.running = 1, .running_per_user = 1, .waiting_per_user = 5, .retry_after = {}});
    const auto first = lab.begin(lab.request());
    const auto second = lab.begin(lab.request());
    const auto third = lab.begin(lab.request());
    CHECK(first->state() == Execution::State::starting);
    second->cancel("enough");
    CHECK(lab.result(*second)["error"]["kind"] == "cancelled");
    first->cancel("enough");
    lab.settle();
    CHECK(lab.types(*first) == std::vector<std::string>{"result", "done"});
    FakeProgram& program = lab.started(third);
    program.observer.on_log("log", "x");
    third->cancel("enough");
    CHECK(lab.result(*third)["error"]["message"] == "enough");
    lab.settle();
    CHECK(lab.sandboxes.living() == 0);
    CHECK(lab.executions.running() == 0);
    CHECK(lab.executions.waiting() == 0);
}

TEST_CASE("Runs of users take turns; beyond their places they wait, and beyond that they are refused") {
    Lab lab(
        100,
        {.running = 2, .running_per_user = 1, .waiting_per_user = 1, .retry_after = std::chrono::seconds(1)});
    const auto a1 = lab.begin(lab.request("a"));
    const auto a2 = lab.begin(lab.request("a"));
    const auto refused = lab.executions.begin(lab.request("a"));
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::too_many_executions);
    const auto b1 = lab.begin(lab.request("b"));
    lab.settle();
    CHECK(a1->state() == Execution::State::running);
    CHECK(a2->state() == Execution::State::waiting);
    CHECK(b1->state() == Execution::State::running);
    a1->cancel("");
    CHECK(a2->state() == Execution::State::waiting);  // until the sandbox is gone
    lab.settle();
    CHECK(a2->state() == Execution::State::running);
    // Of a and b, of none, and the latest first.
    CHECK(lab.executions.list("a", 10) == std::vector{a2, a1});
    CHECK(lab.executions.list("c", 10).empty());
    CHECK(lab.executions.list(std::nullopt, 2) == std::vector{b1, a2});
    CHECK(lab.executions.list(std::nullopt, 2, a2->key()) == std::vector{a1});
    lab.executions.erase_user("a");
    lab.settle();
    CHECK(lab.executions.find(a2->id()) == nullptr);
    CHECK(lab.executions.find(b1->id()) == b1);
}

TEST_CASE("A full server refuses a run, at once or when its turn comes, and evicts nobody") {
    Lab lab(1, {.running = 5, .running_per_user = 1, .waiting_per_user = 5, .retry_after = {}});
    const auto first = lab.begin(lab.request());
    const auto at_once = lab.executions.begin(lab.request());
    REQUIRE(at_once.has_error());
    CHECK(at_once.error().code() == base::Errc::capacity);
    first->cancel("");
    lab.settle();
    const auto second = lab.begin(lab.request());
    lab.settle();
    CHECK(second->state() == Execution::State::running);
    // Whatever starts meanwhile.
    Lab other(2, {.running = 1, .running_per_user = 1, .waiting_per_user = 5, .retry_after = {}});
    const auto runs = other.begin(other.request());
    const auto waits = other.begin(other.request());
    const std::string one = other.sandboxes.create({})->id;
    other.settle();
    other.sandboxes.start(one, {}, [](const auto&) {});
    const std::string two = other.sandboxes.create({})->id;
    runs->cancel("");
    other.world.timers.run_deferred();
    while (other.sandboxes.living() > 1 && (other.world.timers.run_deferred() || other.world.run_pending())) {
    }
    other.sandboxes.start(two, {}, [](const auto&) {});
    other.settle();
    if (waits->refusal())
        CHECK(waits->refusal()->code() == base::Errc::capacity);
    else
        CHECK(waits->state() == Execution::State::running);
    CHECK(other.executions.find(waits->id()) == (waits->refusal() ? nullptr : waits));
}

TEST_CASE("A sandbox that cannot start refuses the run, which then leaves nothing") {
    Lab lab;
    lab.world.failure_per_mille = 1000;
    const auto execution = lab.begin(lab.request());
    lab.settle();
    REQUIRE(execution->refusal());
    CHECK(execution->events(0).empty());
    CHECK(lab.executions.find(execution->id()) == nullptr);
    CHECK(lab.sandboxes.living() == 0);
    CHECK(lab.world.uids.empty());
    CHECK(lab.executions.running() == 0);
}

TEST_CASE("Calls are checked, refused, asked about, and answered once") {
    Lab lab;
    const auto execution = lab.begin(lab.with_tools());
    FakeProgram& program = lab.started(execution);
    auto& observer = program.observer;
    execution::CallAnswer result;
    result.result_json = "5";
    execution::CallAnswer allow;
    allow.decision = execution::CallAnswer::Decision::allow;
    execution::CallAnswer deny;
    deny.decision = execution::CallAnswer::Decision::deny;
    const auto code = [&](const char* call, const execution::CallAnswer& answer) {
        const auto done = execution->answer(call, answer);
        return done.has_error() ? done.error().code() : base::Errc::internal;
    };

    observer.on_call(1, "free", "[1,2,3]");
    CHECK(program.errors[1].find("free") != std::string::npos);
    observer.on_call(2, "no", "[]");
    CHECK(program.errors[2] == "the tool no is denied");
    CHECK(lab.types(*execution) == std::vector<std::string>{"start"});

    observer.on_call(3, "free", "[2,3]");
    CHECK(lab.types(*execution).back() == "tool_call");
    CHECK(
        Json::parse(execution->events(0).back().data) ==
        Json::parse(R"({"callId":"c3","name":"free","args":[2,3],"policy":"allow","answeredBy":"caller"})"));
    CHECK(code("c9", result) == base::Errc::not_found);
    CHECK(code("c3", allow) == base::Errc::call_answered);
    execution::CallAnswer long_one;
    long_one.result_json = "\"too long\"";
    CHECK(code("c3", long_one) == base::Errc::invalid_field);
    CHECK(execution->answer("c3", result).has_value());
    CHECK(program.answers[3] == "5");
    CHECK(code("c3", result) == base::Errc::call_answered);

    observer.on_call(4, "asks", "[]");
    CHECK(code("c4", result) == base::Errc::invalid_field);
    CHECK(execution->answer("c4", allow).has_value());
    CHECK(execution->answer("c4", result).has_value());
    observer.on_call(5, "asks", "[]");
    CHECK(execution->answer("c5", deny).has_value());
    CHECK(program.errors[5] == "the tool asks is denied");

    observer.on_call(6, "own", "[{}]");
    REQUIRE(lab.host->seen == std::vector<std::string>{"[{}]"});
    CHECK(code("c6", result) == base::Errc::invalid_field);
    lab.host->answers[0](std::string("[1]"));
    lab.settle();
    CHECK(program.answers[6] == "[1]");
    CHECK(lab.host->living == 0);
    observer.on_call(7, "own", "[]");
    observer.on_call(8, "free", "[]");
    CHECK(lab.host->living == 1);

    observer.on_end(std::nullopt, execution::Failure{"runtime", "Error: the tool no is denied", 1});
    lab.settle();
    CHECK(lab.host->living == 0);
    CHECK(code("c8", result) == base::Errc::execution_ended);
    const Json told = lab.result(*execution);
    CHECK(told["error"]["kind"] == "denied");
    std::vector<std::string> statuses;
    for (const Json& call : told["calls"])
        statuses.push_back(call["status"]);
    CHECK(statuses == std::vector<std::string>{"refused", "denied", "answered", "answered", "denied",
                                               "answered", "unanswered", "unanswered"});
    // The answer of a tool that comes later changes nothing.
    lab.host->answers[1](std::string("2"));
}

TEST_CASE("The arguments of calls are kept up to a bound, and a call beyond it is refused") {
    Lab lab;
    const auto execution = lab.begin(lab.with_tools());
    FakeProgram& program = lab.started(execution);
    const std::string args = "[\"" + std::string(base::k_max_execution_value_bytes - 16, 'x') + "\"]";
    std::uint64_t id = 0;
    while (program.errors.empty() && id < 20) {
        program.observer.on_call(++id, "free", args);
        if (program.is_held)
            lab.checks.answers.back()({});
    }
    CHECK(id == 8);
    CHECK(execution->event_bytes() <= base::k_max_execution_event_bytes);
}

TEST_CASE("A call that takes long to check is checked elsewhere, and seen by nobody before that") {
    Lab lab;
    ExecutionRequest wanted = lab.with_tools();
    wanted.user_id = "ann";
    const auto execution = lab.begin(std::move(wanted));
    FakeProgram& program = lab.started(execution);
    auto& observer = program.observer;
    const std::string args = "[\"" + std::string(100'000, 'x') + "\"]";
    execution::CallAnswer result;
    result.result_json = "5";
    observer.on_call(1, "own", args);
    CHECK(program.is_held);
    CHECK(lab.checks.asked == std::vector<std::string>{"ann own {} 100004"});
    CHECK(lab.types(*execution) == std::vector<std::string>{"start"});
    CHECK(execution->answer("c1", result).error().code() == base::Errc::not_found);
    SECTION("it fits") {
        lab.checks.answers[0]({});
        CHECK(lab.types(*execution).back() == "tool_call");
        CHECK(lab.host->seen == std::vector{args});
        CHECK_FALSE(program.is_held);
        lab.settle();  // in the next turn of the loop there is work for checks again
        observer.on_call(2, "free", "[1]");
        CHECK_FALSE(program.is_held);
        CHECK(lab.types(*execution) == std::vector<std::string>{"start", "tool_call", "tool_call"});
    }
    SECTION("it does not fit") {
        lab.checks.answers[0](base::Error(base::Errc::invalid_field, "own: args[0]: no"));
        CHECK(program.errors[1] == "own: args[0]: no");
        CHECK_FALSE(program.is_held);
    }
    SECTION("it is not known whether it fits") {
        lab.checks.answers[0](base::Error(base::Errc::deadline_exceeded, "it took too long"));
        CHECK(program.errors[1] == "own: the arguments could not be checked: it took too long");
        CHECK_FALSE(program.is_held);
        CHECK(execution->state() == Execution::State::running);
    }
    SECTION("the run ends meanwhile") {
        execution->cancel("enough");
        CHECK(lab.checks.living == 0);
        CHECK(lab.result(*execution)["calls"][0]["status"] == "unanswered");
        lab.checks.answers[0]({});
        lab.settle();
        CHECK(lab.types(*execution) == std::vector<std::string>{"start", "result", "done"});
    }
    CHECK(lab.checks.living == 0);
}

TEST_CASE("Many short calls in one turn of the loop are checked in it up to a bound, and then elsewhere") {
    Lab lab;
    ExecutionRequest wanted = lab.request();
    std::string schema = R"({"type":"array","anyOf":[)";
    for (int i = 0; i < 100; ++i)
        schema += R"({"minItems":9},)";
    const std::vector<execution::ToolSpec> specs{{"many", "", schema + "{}]}", Policy::allow}};
    wanted.tools.emplace(execution::ToolSet::make(specs).value());
    REQUIRE(wanted.tools->is_compiled());
    wanted.tool_names = {"many"};
    const auto execution = lab.begin(std::move(wanted));
    FakeProgram& program = lab.started(execution);
    std::uint64_t id = 0;
    while (!program.is_held && id < 1000)
        program.observer.on_call(++id, "many", "[1]");
    CHECK(id > 5);
    CHECK(id < 100);
    lab.settle();
    lab.checks.answers[0]({});
    program.observer.on_call(++id, "many", "[1]");
    CHECK_FALSE(program.is_held);
    CHECK(lab.types(*execution).size() == id + 1);
}

TEST_CASE("A run that has ended can be read for its time, and those that ended first go first") {
    Lab lab;
    const auto first = lab.begin(lab.request());
    lab.started(first).observer.on_end("1", std::nullopt);
    lab.settle();
    lab.pass(base::k_execution_kept - base::Millis{1});
    CHECK(lab.executions.find(first->id()) == first);
    lab.pass(base::Millis{1});
    CHECK(lab.executions.find(first->id()) == nullptr);
    // A reader keeps what it reads.
    CHECK(first->events(0).size() == 3);
    std::vector<std::shared_ptr<Execution>> large;
    const std::string text(3UL * 1024 * 1024, 'x');
    for (int i = 0; i < 25; ++i) {
        large.push_back(lab.begin(lab.request()));
        FakeProgram& program = lab.started(large.back());
        program.observer.on_log("log", text);
        program.observer.on_end("1", std::nullopt);
        lab.settle();
    }
    CHECK(lab.executions.find(large.front()->id()) == nullptr);
    CHECK(lab.executions.find(large.back()->id()) == large.back());
}

TEST_CASE("Those who follow are woken by each event, and by the end") {
    Lab lab;
    const auto execution = lab.begin(lab.request());
    int woken = 0;
    auto follower = std::make_unique<Execution::Follower>(execution);
    follower->on_wake([&] { ++woken; });
    FakeProgram& program = lab.started(execution);
    CHECK(woken == 1);
    program.observer.on_log("log", "x");
    CHECK(woken == 2);
    follower.reset();
    program.observer.on_end("1", std::nullopt);
    CHECK(woken == 2);
}

TEST_CASE("A server that stops ends all runs and takes no more") {
    Lab lab;
    const auto execution = lab.begin(lab.request());
    (void)lab.started(execution);
    lab.executions.shut_down();
    CHECK(lab.result(*execution)["error"]["kind"] == "cancelled");
    CHECK(lab.executions.begin(lab.request()).error().code() == base::Errc::shutting_down);
    lab.settle();
    CHECK(lab.sandboxes.living() == 0);
}

}  // namespace executions_test
