// Runs of code mode over fakes of every port: the line, the end of a run whatever brings it about, and what
// is kept.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/core/execution_lab.hpp"

namespace executions_test {

using namespace atl;
using namespace atl::test;
using namespace atl::test::execution_lab;

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

TEST_CASE("Logs beyond what is kept of a run end with an entry that says so, and nothing comes behind it") {
    Lab lab;
    const auto execution = lab.begin(lab.request());
    FakeProgram& program = lab.started(execution);
    // Six bytes of JSON each.
    const std::string text(256UL * 1024, '\x01');
    while (execution->event_bytes() + 7 * text.size() <= base::k_max_execution_event_bytes)
        program.observer.on_log("log", text);
    for (std::size_t bytes = 0; bytes <= 7 * text.size(); bytes += 128)
        program.observer.on_log("log", "x");
    program.observer.on_log("error", "");
    program.observer.on_end("1", std::nullopt);
    const Json result = lab.result(*execution);
    CHECK(result["result"] == 1);
    const Json& logs = result["logs"];
    REQUIRE(logs.size() >= 2);
    CHECK(logs[logs.size() - 2]["text"] == "x");
    CHECK(logs.back()["level"] == "warn");
    CHECK(logs.back()["text"].get<std::string>().starts_with("logs end here: "));
    CHECK(execution->event_bytes() <= base::k_max_execution_event_bytes);
    lab.settle();
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
    // The lists of the user a, of the user c without a run, and of all users have the latest run first.
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

TEST_CASE("A run that was promised is kept with the reason where it cannot begin") {
    Lab lab(100, {.running = 1, .running_per_user = 1, .waiting_per_user = 5, .retry_after = {}});
    const auto first = lab.begin(lab.request());
    const auto execution = lab.begin(lab.request());
    execution->keep_result();
    lab.settle();
    lab.world.failure_per_mille = 1000;
    first->cancel("");
    lab.settle();
    REQUIRE(execution->has_ended());
    CHECK_FALSE(execution->refusal());
    CHECK(lab.types(*execution) == std::vector<std::string>{"result", "done"});
    const Json error = lab.result(*execution)["error"];
    CHECK(error["kind"] == "crashed");
    CHECK(error["message"].get<std::string>().starts_with("the run could not begin: "));
    CHECK(lab.executions.find(execution->id()) == execution);
    CHECK(lab.sandboxes.living() == 0);
    CHECK(lab.executions.running() == 0);
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

// Ten runs of one user once pushed out another's within seconds.
TEST_CASE("Results of one user's runs leave those of others where they are") {
    Lab lab;
    const auto ended = [&lab](ExecutionRequest wanted, const std::string& log) {
        auto execution = lab.begin(std::move(wanted));
        FakeProgram& program = lab.started(execution);
        program.observer.on_log("log", log);
        program.observer.on_end("1", std::nullopt);
        lab.settle();
        return execution;
    };
    ExecutionRequest unread = lab.request("quiet");
    unread.on_disconnect = ExecutionRequest::OnDisconnect::finish;
    const auto quiet = ended(std::move(unread), "kept");
    const auto on_disconnect =
        GENERATE(ExecutionRequest::OnDisconnect::cancel, ExecutionRequest::OnDisconnect::finish);
    std::vector<std::shared_ptr<Execution>> greedy;
    for (int i = 0; i < 25; ++i) {
        ExecutionRequest wanted = lab.request("greedy");
        wanted.on_disconnect = on_disconnect;
        greedy.push_back(ended(std::move(wanted), std::string(3UL * 1024 * 1024, 'x')));
    }
    CHECK(lab.executions.find(quiet->id()) == quiet);
    CHECK(lab.executions.find(greedy.front()->id()) == nullptr);
    CHECK(lab.executions.find(greedy.back()->id()) == greedy.back());
    CHECK(lab.budgets.results.used() <= base::k_max_kept_execution_bytes);
    lab.pass(base::k_execution_kept);
    CHECK(lab.budgets.results.used() == 0);
}

TEST_CASE("Results that were read go first, and an attended run takes no unread one's place") {
    Lab lab;
    const auto ended = [&lab](ExecutionRequest::OnDisconnect on_disconnect) {
        ExecutionRequest wanted = lab.request("ann");
        wanted.on_disconnect = on_disconnect;
        auto execution = lab.begin(std::move(wanted));
        FakeProgram& program = lab.started(execution);
        for (int i = 0; i < 2; ++i)
            program.observer.on_log("log", std::string(3UL * 1024 * 1024, 'x'));
        program.observer.on_end("1", std::nullopt);
        lab.settle();
        return execution;
    };
    using OnDisconnect = ExecutionRequest::OnDisconnect;
    std::vector<std::shared_ptr<Execution>> unread;
    for (int i = 0; i < 5; ++i)
        unread.push_back(ended(OnDisconnect::finish));
    const auto is_kept = [&lab](const std::shared_ptr<Execution>& one) {
        return lab.executions.find(one->id()) == one;
    };
    CHECK(std::ranges::all_of(unread, is_kept));
    CHECK_FALSE(is_kept(ended(OnDisconnect::cancel)));
    CHECK(std::ranges::all_of(unread, is_kept));
    unread[3]->note_read();
    const auto attended = ended(OnDisconnect::cancel);
    CHECK_FALSE(is_kept(unread[3]));
    CHECK(is_kept(attended));
    CHECK(is_kept(ended(OnDisconnect::finish)));
    CHECK_FALSE(is_kept(attended));
    CHECK(is_kept(unread[0]));
    CHECK(is_kept(ended(OnDisconnect::finish)));
    CHECK_FALSE(is_kept(unread[0]));
    CHECK(is_kept(unread[1]));
}

TEST_CASE("A detached run whose result could find no room is refused before it starts") {
    Lab lab;
    using OnDisconnect = ExecutionRequest::OnDisconnect;
    const auto wanted = [&lab](OnDisconnect on_disconnect) {
        ExecutionRequest request = lab.request("ann");
        request.on_disconnect = on_disconnect;
        return request;
    };
    std::vector<base::Share> others;
    SECTION("the user has all that one may have") {
        const auto ann = base::ShareHolder::user("ann");
        others.push_back(*lab.budgets.results.take(ann, lab.budgets.results.room(ann)));
        CHECK(lab.executions.begin(wanted(OnDisconnect::finish)).error().code() == base::Errc::user_share);
    }
    SECTION("all users together have all") {
        for (int i = 0; lab.budgets.results.used() < base::k_max_kept_execution_bytes; ++i) {
            const auto user = base::ShareHolder::user(std::to_string(i));
            others.push_back(*lab.budgets.results.take(user, lab.budgets.results.room(user)));
        }
        CHECK(lab.executions.begin(wanted(OnDisconnect::finish)).error().code() == base::Errc::capacity);
    }
    CHECK(lab.executions.waiting() + lab.executions.running() == 0);
    (void)lab.begin(wanted(OnDisconnect::cancel));
    others.clear();
    (void)lab.begin(wanted(OnDisconnect::finish));
    CHECK(lab.budgets.results.used() == base::k_execution_reserved_bytes);
}

TEST_CASE("A detached run whose user has no more room keeps what it had room for, and says so") {
    Lab lab;
    ExecutionRequest wanted = lab.with_tools();
    wanted.on_disconnect = ExecutionRequest::OnDisconnect::finish;
    const auto execution = lab.begin(std::move(wanted));
    FakeProgram& program = lab.started(execution);
    const auto rest = *lab.budgets.results.take({}, lab.budgets.results.room({}));
    const std::string large(base::k_execution_reserved_bytes, 'x');
    const auto kind = [&] { return lab.result(*execution)["error"]["kind"]; };
    SECTION("logs") {
        program.observer.on_log("log", "fits");
        program.observer.on_log("log", large);
        program.observer.on_end("1", std::nullopt);
        const Json result = lab.result(*execution);
        CHECK(result["result"] == 1);
        CHECK(result["logs"][0]["text"] == "fits");
        CHECK(result["logs"].back()["text"].get<std::string>().starts_with("logs end here: "));
    }
    SECTION("a result") {
        program.observer.on_end("\"" + large + "\"", std::nullopt);
        CHECK(kind() == "no_room");
    }
    SECTION("a call") {
        program.observer.on_call(1, "free", "[\"" + large + "\"]");
        program.observer.on_end("1", std::nullopt);
        CHECK(lab.result(*execution)["calls"][0]["status"] == "refused");
    }
    SECTION("calls that nobody sees") {
        for (std::uint64_t id = 1; id <= 2000 && !execution->has_ended(); ++id)
            program.observer.on_call(id, "no", "[]");
        CHECK(kind() == "no_room");
    }
    lab.settle();
    CHECK(execution->event_bytes() <= base::k_execution_reserved_bytes);
    CHECK(lab.executions.find(execution->id()) == execution);
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
