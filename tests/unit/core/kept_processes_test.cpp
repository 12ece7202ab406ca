// Processes that are started again in each generation, over fakes of every port.
#include <catch2/catch_test_macros.hpp>

#include "core/base/ids.hpp"
#include "core/plain/operation_limits.hpp"
#include "tests/unit/core/house.hpp"

namespace core_kept_processes_test {

using namespace atl;
using namespace atl::test;
using conversation::Lease;
using conversation::LeaseUse;
using conversation::PauseMode;
using sandbox::ProcessSpec;

namespace {

using Leased = base::Result<std::unique_ptr<Lease>>;
using Specs = std::vector<ProcessSpec>;

/// A conversation's sandbox whose guest notes what it is asked to start.
struct Bench {
    Bench() {
        house.world.start_process = [this](const ProcessSpec& spec) {
            started.push_back(spec);
            return guest_answer;
        };
        const auto made = house.create();
        id = made->record.id;
        sandbox_id = made->record.sandbox_id;
    }

    Leased lease(LeaseUse use) {
        std::optional<Leased> answered;
        house.conversations->lease(sandbox_id, use,
                                   [&answered](Leased granted) { answered.emplace(std::move(granted)); });
        house.settle();
        while (!answered && house.world.timers.fire_next())
            house.settle();
        REQUIRE(answered.has_value());
        return std::move(*answered);
    }
    base::Result<pid_t> start(const ProcessSpec& spec) {
        const auto held = lease(LeaseUse::process);
        return house.answer<pid_t>(
            [&](auto reply) { house.conversations->start_kept_process(**held, spec, std::move(reply)); });
    }
    Specs kept() {
        return *house.answer<Specs>(
            [&](auto reply) { house.conversations->kept_processes(sandbox_id, std::move(reply)); });
    }
    bool forget(const std::string& process_id) {
        return *house.answer<bool>([&](auto reply) {
            house.conversations->forget_process(sandbox_id, process_id, std::move(reply));
        });
    }
    void pause(PauseMode mode = PauseMode::cold) {
        (void)house.answer([&](auto reply) { house.conversations->pause(id, mode, std::move(reply)); });
    }
    void resume() {
        (void)house.answer([&](auto reply) { house.conversations->resume(id, std::move(reply)); });
        house.settle();
    }
    std::string log() {
        std::string text;
        const auto page = house.sandboxes->logs().read(sandbox_id, 0);
        for (const auto& entry : page->entries)
            text += entry.text + '\n';
        return text;
    }

    base::Result<pid_t> guest_answer = pid_t{7};
    Specs started;
    House house{{10, 0}};
    std::string id;
    std::string sandbox_id;
};

ProcessSpec dev_server(const std::string& id = base::new_id()) {
    ProcessSpec spec;
    spec.id = id;
    spec.tag = "dev";
    spec.program.command = "npm run dev";
    spec.program.directory = "app";
    spec.program.env = {{"PORT", "5173"}};
    spec.terminal = sandbox::TerminalSize{100, 40};
    return spec;
}

}  // namespace

TEST_CASE("kept processes: each generation starts them as they were, under another id") {
    Bench bench;
    REQUIRE(bench.start(dev_server("first")).value() == 7);
    REQUIRE(bench.started.size() == 1);
    CHECK(bench.started[0].id == "first");
    CHECK(bench.kept().at(0).id == "first");
    bench.pause();
    CHECK(bench.kept().at(0).id == "first");
    bench.resume();
    REQUIRE(bench.started.size() == 2);
    const ProcessSpec& again = bench.started[1];
    CHECK(again.id != "first");
    CHECK(base::is_id(again.id));
    CHECK(again.tag == "dev");
    CHECK(again.program.command == "npm run dev");
    CHECK(again.program.directory == "app");
    CHECK(again.program.env == sandbox::Environment{{"PORT", "5173"}});
    CHECK(again.terminal == sandbox::TerminalSize{100, 40});
    CHECK(bench.kept().at(0).id == again.id);
    // A server that ends without a word, and one that finds the conversation at rest.
    for (std::size_t starts = 3; starts <= 4; ++starts) {
        bench.house.restart();
        CHECK(bench.kept().at(0).id == bench.started.back().id);
        bench.resume();
        CHECK(bench.started.size() == starts);
    }
}

TEST_CASE("kept processes: a frozen generation has them still, one for requests alone does not start them") {
    Bench bench;
    REQUIRE(bench.start(dev_server()).has_value());
    bench.pause(PauseMode::warm);
    bench.resume();
    CHECK(bench.started.size() == 1);
    bench.pause();
    {
        const auto file = bench.lease(LeaseUse::request);
        REQUIRE(file.has_value());
        bench.house.settle();
        CHECK(bench.started.size() == 1);
        // A message makes it the conversation's own.
        bench.resume();
        CHECK(bench.started.size() == 2);
    }
    bench.pause();
    const auto terminal = bench.lease(LeaseUse::process);
    REQUIRE(terminal.has_value());
    bench.house.settle();
    CHECK(bench.started.size() == 3);
}

TEST_CASE("kept processes: the ninth is refused until one is forgotten") {
    Bench bench;
    for (std::size_t i = 0; i < base::k_max_kept_processes; ++i)
        REQUIRE(bench.start(dev_server()).has_value());
    const auto ninth = bench.start(dev_server());
    REQUIRE_FALSE(ninth.has_value());
    CHECK(ninth.error().code() == base::Errc::too_many_kept_processes);
    CHECK(bench.started.size() == base::k_max_kept_processes);
    bench.house.restart();
    bench.resume();
    CHECK(bench.started.size() == 2 * base::k_max_kept_processes);
    CHECK_FALSE(bench.start(dev_server()).has_value());
    CHECK(bench.forget(bench.kept().at(3).id));
    CHECK(bench.start(dev_server()).has_value());
}

TEST_CASE("kept processes: one that is forgotten does not come back, also after a crash, also while paused") {
    Bench bench;
    REQUIRE(bench.start(dev_server("one")).has_value());
    REQUIRE(bench.start(dev_server("two")).has_value());
    REQUIRE(bench.start(dev_server("three")).has_value());
    CHECK_FALSE(bench.forget("four"));
    CHECK(bench.forget("two"));
    CHECK_FALSE(bench.forget("two"));
    bench.pause();
    CHECK(bench.forget("one"));
    bench.house.restart();
    bench.started.clear();
    bench.resume();
    CHECK(bench.started.size() == 1);
    CHECK(bench.kept().size() == 1);
}

TEST_CASE("kept processes: one that cannot start is not kept; one that cannot start again is, and is told") {
    Bench bench;
    bench.guest_answer = base::Error(base::Errc::invalid_field, "no such program");
    CHECK(bench.start(dev_server()).error().code() == base::Errc::invalid_field);
    CHECK(bench.kept().empty());
    bench.guest_answer = pid_t{7};
    REQUIRE(bench.start(dev_server()).has_value());
    bench.pause();
    bench.guest_answer = base::Error(base::Errc::too_many_processes, "no room for it");
    bench.resume();
    const auto view = *get(*bench.house.conversations, bench.id);
    CHECK(view.record.status == conversation::Status::active);
    CHECK(view.sandbox_status == sandbox::Status::ready);
    CHECK(bench.log().find(bench.kept().at(0).id + " (dev) was not started again: no room for it") !=
          std::string::npos);
    bench.pause();
    bench.guest_answer = pid_t{8};
    bench.resume();
    CHECK(bench.started.size() == 4);
}

TEST_CASE("kept processes: a generation that ends during a start answers it, and keeps nothing") {
    Bench bench;
    const auto held = bench.lease(LeaseUse::process);
    std::optional<base::Result<pid_t>> answered;
    bench.house.conversations->start_kept_process(
        **held, dev_server(), [&answered](base::Result<pid_t> started) { answered = std::move(started); });
    CHECK(bench.kept().empty());
    for (const auto& [pid, process] : std::map(bench.house.world.processes))
        bench.house.world.process_dies(process, {sandbox::ExitClass::signalled, 9, "killed"});
    // The guest's answer and the end of the generation come in any order: an answer that is first counts.
    bench.house.settle();
    REQUIRE(answered.has_value());
    CHECK(bench.kept().size() == (answered->has_value() ? 1 : 0));
}

TEST_CASE("kept processes: nothing of them is left of a conversation that is deleted or has ended") {
    Bench bench;
    REQUIRE(bench.start(dev_server()).has_value());
    CHECK(bench.house.world.store.processes.size() == 1);
    (void)bench.house.answer<void>(
        [&](auto reply) { bench.house.conversations->remove(bench.id, std::move(reply)); });
    CHECK(bench.house.world.store.processes.empty());
    conversation::CreateRequest request;
    request.ttl_seconds = 60;
    const auto made = bench.house.create(request);
    bench.id = made->record.id;
    bench.sandbox_id = made->record.sandbox_id;
    REQUIRE(bench.start(dev_server()).has_value());
    CHECK(bench.house.world.store.processes.size() == 1);
    while (get(*bench.house.conversations, bench.id)->record.status != conversation::Status::ended &&
           bench.house.world.timers.fire_next())
        bench.house.settle();
    bench.house.settle();
    while (!bench.house.world.store.processes.empty() && bench.house.world.timers.fire_next())
        bench.house.settle();
    CHECK(bench.house.world.store.processes.empty());
}

TEST_CASE("kept processes: a sandbox without a conversation, which has one generation, refuses them") {
    Bench bench;
    const auto made = bench.house.answer<conversation::SandboxView>(
        [&](auto reply) { bench.house.conversations->create_sandbox({}, std::move(reply)); });
    bench.sandbox_id = made->record.id;
    const auto refused = bench.start(dev_server());
    CHECK(refused.error().code() == base::Errc::invalid_field);
    CHECK(refused.error().pointer() == "/restart");
    CHECK(bench.kept().empty());
    CHECK_FALSE(bench.forget("one"));
}

TEST_CASE("tools: the rule of a conversation is changed, kept, and told to those who hold a lease") {
    Bench bench;
    const auto rule = [&bench] {
        const auto held = bench.lease(LeaseUse::request);
        return bench.house.conversations->tools(**held).read_before_edit;
    };
    CHECK_FALSE(rule());
    const auto patch = [&bench](std::optional<bool> read_before_edit) {
        conversation::PatchRequest change;
        change.tools.read_before_edit = read_before_edit;
        return bench.house
            .answer([&](auto reply) { bench.house.conversations->patch(bench.id, change, std::move(reply)); })
            ->record.tools.read_before_edit;
    };
    CHECK(patch(true));
    CHECK(patch(std::nullopt));
    CHECK(rule());
    bench.house.restart();
    CHECK(rule());
    CHECK_FALSE(patch(false));
    CHECK_FALSE(rule());
    conversation::CreateRequest request;
    request.tools.read_before_edit = true;
    request.tools.run_command = false;
    bench.sandbox_id = bench.house.create(request)->record.sandbox_id;
    CHECK(rule());
    const auto told = [&bench] {
        return *bench.house.answer<conversation::ToolSettings>(
            [&](auto reply) { bench.house.conversations->tools(bench.sandbox_id, std::move(reply)); });
    };
    CHECK(told() == request.tools);
    bench.house.restart();
    CHECK(told() == request.tools);
    // A sandbox without a conversation has its own.
    conversation::Manager::SandboxRequest alone;
    alone.tools.run_command = false;
    bench.sandbox_id = bench.house
                           .answer<conversation::SandboxView>([&](auto reply) {
                               bench.house.conversations->create_sandbox(alone, std::move(reply));
                           })
                           ->record.id;
    CHECK(told() == alone.tools);
    conversation::SandboxPatch back;
    back.tools.run_command = true;
    (void)bench.house.answer<conversation::SandboxView>([&](auto reply) {
        bench.house.conversations->patch_sandbox(bench.sandbox_id, back, std::move(reply));
    });
    CHECK(told() == conversation::ToolSettings());
}

}  // namespace core_kept_processes_test
