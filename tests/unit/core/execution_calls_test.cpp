// Runs of code mode over fakes of every port: calls of tools, their checks and their answers.
#include <time.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/support/deadline.hpp"
#include "tests/unit/core/execution_lab.hpp"

namespace execution_calls_test {

using namespace atl;
using namespace atl::test;
using namespace atl::test::execution_lab;

namespace {

/// The processor time that it takes.
template <class Work>
std::chrono::nanoseconds cpu_of(const Work& work) {
    const auto now = [] {
        timespec time{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    };
    const std::chrono::nanoseconds began = now();
    work();
    return now() - began;
}

}  // namespace

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

TEST_CASE("A run has failed for the refusal of a tool where its error names one that was denied") {
    const auto kind_with = [](const std::string& message, std::uint64_t denied) {
        Lab lab;
        const auto execution = lab.begin(lab.with_tools());
        FakeProgram& program = lab.started(execution);
        for (std::uint64_t id = 1; id <= denied; ++id)
            program.observer.on_call(id, "no", "[]");
        program.observer.on_end(std::nullopt, execution::Failure{"runtime", message, std::nullopt});
        lab.settle();
        return lab.result(*execution)["error"]["kind"].get<std::string>();
    };
    CHECK(kind_with("Error: the tool no is denied (cause: x)", 1) == "denied");
    CHECK(kind_with("the tool the tool free is denied, the tool no is denied", 1) == "denied");
    CHECK(kind_with("Error: the tool no is denied", 0) == "runtime");
    for (const std::string message : {"", "the tool ", "the tool nothing is denied", "the tool no is denie",
                                      "the tool no  is denied", "the tool free is denied"})
        CHECK(kind_with(message, 1) == "runtime");
    // Many refusals, and a long message that nearly names one: it is searched once, not for each refusal.
    std::string nearly;
    while (nearly.size() + 9 < base::k_max_execution_error_bytes)
        nearly += "the tool ";
    std::string kind;
    const auto with_short = cpu_of([&] { kind = kind_with("", base::k_max_execution_calls); });
    const auto with_long = cpu_of([&] { kind = kind_with(nearly, base::k_max_execution_calls); });
    CHECK(kind == "runtime");
    if (checks_bounds())
        CHECK(with_long < 3 * with_short);
}

TEST_CASE("An answer that was checked elsewhere is not read again, and is taken only while its call waits") {
    Lab lab;
    const auto execution = lab.begin(lab.with_tools());
    FakeProgram& program = lab.started(execution);
    program.observer.on_call(1, "free", "[]");
    program.observer.on_call(2, "free", "[]");
    execution::CallAnswer answer;
    answer.result_text = execution::CallAnswer::Text::checked;
    const auto code = [](const base::Result<void>& done) {
        return done.has_error() ? done.error().code() : base::Errc::internal;
    };
    CHECK(execution->awaits_answer("c1").has_value());
    CHECK(code(execution->awaits_answer("c3")) == base::Errc::not_found);
    answer.result_json = "";  // too long for a value
    CHECK(code(execution->answer("c1", answer)) == base::Errc::invalid_field);
    CHECK(execution->awaits_answer("c1").has_value());
    answer.result_json = "[5]";
    CHECK(execution->answer("c1", answer).has_value());
    CHECK(program.answers[1] == "[5]");
    CHECK(program.checked == std::vector<std::uint64_t>{1, 1});
    CHECK(code(execution->awaits_answer("c1")) == base::Errc::call_answered);
    CHECK(code(execution->answer("c1", answer)) == base::Errc::call_answered);
    execution->cancel("enough");
    CHECK(code(execution->awaits_answer("c2")) == base::Errc::execution_ended);
    CHECK(code(execution->answer("c2", answer)) == base::Errc::execution_ended);
    lab.settle();
}

TEST_CASE("A long answer of the host is read elsewhere, and its call waits meanwhile") {
    Lab lab;
    ExecutionRequest wanted = lab.with_tools();
    wanted.holder = base::ShareHolder::user("ann");
    const auto execution = lab.begin(std::move(wanted));
    FakeProgram& program = lab.started(execution);
    program.observer.on_call(1, "own", "[]");
    program.observer.on_call(2, "own", "[]");
    const std::string text = '"' + std::string(base::k_small_answer_bytes, 'x') + '"';
    lab.host->answers[0](text);
    lab.settle();
    CHECK(lab.checks.asked == std::vector<std::string>{"user ann value " + std::to_string(text.size())});
    CHECK(lab.checks.living == 1);
    CHECK(program.answers.empty());
    CHECK(lab.host->living == 1);
    lab.host->answers[1](std::string("5"));
    CHECK(program.answers == std::map<std::uint64_t, std::string>{{2, "5"}});
    SECTION("it is one") {
        lab.checks.values[0](text);
        CHECK(program.answers[1] == text);
        CHECK(program.checked == std::vector<std::uint64_t>{1});
    }
    SECTION("it is too long") {
        lab.checks.values[0](std::string());
        CHECK(program.errors[1] == "the tool's answer is too long");
    }
    SECTION("it is none") {
        lab.checks.values[0](base::Error(base::Errc::invalid_json, "The body is not JSON."));
        CHECK(program.errors[1] == "the tool's answer is no JSON");
    }
    SECTION("it cannot be read") {
        lab.checks.values[0](base::Error(base::Errc::deadline_exceeded, "it took too long"));
        CHECK(program.errors[1] == "the tool's answer could not be read: it took too long");
    }
    SECTION("the run ends meanwhile") {
        execution->cancel("enough");
        CHECK(lab.checks.living == 0);
        CHECK(lab.result(*execution)["calls"][0]["status"] == "unanswered");
        lab.checks.values[0](text);
    }
    lab.settle();
    CHECK(lab.checks.living == 0);
    CHECK(lab.host->living == 0);
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

TEST_CASE("Calls that nobody sees count among what is kept of a run, too") {
    Lab lab;
    const auto execution = lab.begin(lab.with_tools());
    FakeProgram& program = lab.started(execution);
    const std::size_t before = execution->event_bytes();
    for (std::uint64_t id = 1; id <= 1000; ++id)
        program.observer.on_call(id, "no", "[]");
    CHECK(execution->last_seq() == 1);
    CHECK(execution->event_bytes() >= before + 1000 * 100);
    execution->cancel("enough");
    lab.settle();
}

TEST_CASE("The calls of a run are written at its end, and not again whenever its result is told") {
    Lab lab;
    const auto execution = lab.begin(lab.with_tools());
    FakeProgram& program = lab.started(execution);
    program.observer.on_log("log", "one");
    for (std::uint64_t id = 1; id <= base::k_max_execution_calls; ++id)
        program.observer.on_call(id, "no", "[]");
    const auto at_end = cpu_of([&] { program.observer.on_end("[1]", std::nullopt); });
    lab.settle();
    std::string text;
    const auto later = cpu_of([&] { execution->write_result(text); });
    Json told = Json::parse(text);
    CHECK(told["calls"].size() == base::k_max_execution_calls);
    CHECK(told["calls"].back() ==
          Json::parse(R"({"callId":"c10000","name":"no","status":"denied","durationMs":0})"));
    // The event is the same without its logs and id, in the same order.
    CHECK(told["logs"].size() == 1);
    CHECK(text.find("\"result\":[1],\"logs\":[") != std::string::npos);
    CHECK(text.find("],\"calls\":[") != std::string::npos);
    told.erase("logs");
    told.erase("executionId");
    const auto events = execution->events(0);
    CHECK(Json::parse(events[events.size() - 2].data) == told);
    if (checks_bounds())
        CHECK(later < at_end / 2);  // a copy of the text takes about a quarter
}

TEST_CASE("A call that takes long to check is checked elsewhere, and seen by nobody before that") {
    Lab lab;
    ExecutionRequest wanted = lab.with_tools();
    // A key without a user has a line of its own, too.
    wanted.holder = base::ShareHolder::key("backend");
    const auto execution = lab.begin(std::move(wanted));
    FakeProgram& program = lab.started(execution);
    auto& observer = program.observer;
    const std::string args = "[\"" + std::string(100'000, 'x') + "\"]";
    execution::CallAnswer result;
    result.result_json = "5";
    observer.on_call(1, "own", args);
    CHECK(program.is_held);
    CHECK(lab.checks.asked == std::vector<std::string>{"key backend own {} 100004"});
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

}  // namespace execution_calls_test
