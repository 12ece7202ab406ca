// How the end of a sandbox is told, whatever of it is seen first.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/sandbox/machine.hpp"
#include "house.hpp"
#include "tests/support/result_printer.hpp"

namespace sandbox_ends_test {

using namespace atl;
using conversation::EventType;
using sandbox::Exit;
using sandbox::ExitClass;
using sandbox::GenerationMachine;

namespace {

const Exit k_signalled{ExitClass::signalled, 9, "the guest was ended by signal 9"};
const Exit k_oom{ExitClass::oom, 9, "too much memory"};

GenerationMachine ready_generation() {
    GenerationMachine machine;
    machine.channel_ready();
    return machine;
}

/// A conversation with an open turn, and the outside view of its sandbox.
struct DyingHouse : test::House {
    DyingHouse() : House({1, {}}) {
        const auto made = create();
        id = made->record.id;
        sandbox_id = made->record.sandbox_id;
        process = world.processes.begin()->second;
    }
    void open_turn() {
        conversations->message(id, {"run", "", "somebody"}, conversation::MessageReply::at_once,
                               [](const base::Result<conversation::TurnTicket>& ticket) { REQUIRE(ticket); });
        settle();
        REQUIRE(world.queries.size() == 1);
        query = world.queries.front();
    }
    /// Its processes are gone; what they wrote last is still in the stream.
    void process_dies(const Exit& exit) {
        auto streams = std::exchange(world.queries, {});
        world.process_dies(process, exit);
        world.queries = std::move(streams);
        settle();
    }
    void stream_breaks() {
        world.end_query(*query, sandbox::QueryEnd::closed);
        settle();
    }
    void agent_is_done() {
        query->observer->on_event({"done", "{}"});
        if (query->observer != nullptr)
            world.end_query(*query, sandbox::QueryEnd::done);
        settle();
    }
    void control_stream_breaks() {
        std::exchange(process->on_lost, nullptr)("lost its control stream");
        settle();
    }
    /// "TYPE" of each event from the turn's beginning on; of an error "error CODE", of a sandbox's end its
    /// class.
    std::vector<std::string> told() const {
        std::vector<std::string> out;
        for (const auto& [key, event] : world.store.events) {
            const auto data = nlohmann::json::parse(event->json).at("data");
            const std::string type(to_string(event->type));
            if (event->type == EventType::turn_start)
                out.clear();
            out.push_back(event->type == EventType::error ? type + " " + data.at("code").get<std::string>()
                          : event->type == EventType::sandbox_terminated
                              ? type + " " + data.at("class").get<std::string>()
                              : type);
        }
        return out;
    }

    std::string id;
    std::string sandbox_id;
    std::shared_ptr<test::FakeProcessState> process;
    std::shared_ptr<test::FakeQueryState> query;
};

}  // namespace

TEST_CASE("a generation that dies before its orderly end died of what the server did not do to it") {
    GenerationMachine asked = ready_generation();
    asked.stop(ExitClass::stopped, "paused");
    SECTION("of a signal from elsewhere, before the server sent one") {
        asked.process_exited(k_signalled);
        CHECK(asked.exit().exit_class == ExitClass::signalled);
        CHECK(asked.exit().code == 9);
        CHECK(asked.exit().detail == k_signalled.detail);
    }
    SECTION("of another signal than the server's") {
        asked.deadline_passed();
        asked.process_exited(k_signalled);
        CHECK(asked.exit().exit_class == ExitClass::signalled);
    }
    SECTION("of a limit") {
        asked.process_exited(k_oom);
        CHECK(asked.exit().exit_class == ExitClass::oom);
    }
    SECTION("the controls: as it was asked to, of the server's SIGTERM, of its SIGKILL") {
        const int steps = GENERATE(0, 1, 2);
        for (int step = 0; step < steps; ++step)
            asked.deadline_passed();
        const int signals[] = {0, 15, 9};
        asked.process_exited(steps == 0 ? Exit{ExitClass::exited, 0, "the guest exited"}
                                        : Exit{ExitClass::signalled, signals[steps], "ended"});
        CHECK(asked.exit().exit_class == ExitClass::stopped);
        CHECK(asked.exit().detail == "paused");
    }
}

TEST_CASE("a generation whose control stream breaks is judged by its exit, or is killed if it has none") {
    GenerationMachine machine = ready_generation();
    const sandbox::MachineStep lost = machine.channel_lost("lost its control stream");
    CHECK(lost.deadline.count() > 0);
    CHECK_FALSE(lost.kill);
    machine.stop(ExitClass::killed, "the agent ended");
    SECTION("it has ended") {
        machine.process_exited(k_signalled);
        CHECK(machine.exit().exit_class == ExitClass::signalled);
        CHECK(machine.exit().detail == k_signalled.detail);
    }
    SECTION("it lives on") {
        CHECK(machine.deadline_passed().kill);
        machine.process_exited(k_signalled);
        CHECK(machine.exit().exit_class == ExitClass::killed);
        CHECK(machine.exit().detail == "lost its control stream");
    }
    SECTION("a frozen one goes on, or its exit would not come") {
        GenerationMachine frozen = ready_generation();
        frozen.freeze();
        frozen.frozen();
        CHECK(frozen.channel_lost("lost its control stream").thaw);
    }
}

TEST_CASE("a turn over its memory tells that before its done, whatever is seen first") {
    DyingHouse house;
    house.open_turn();
    SECTION("the kernel's count, then the end of the turn") {
        house.world.oom_kills = 1;
        house.agent_is_done();
    }
    SECTION("the end of the processes, then the end of the turn") {
        house.process_dies(k_oom);
        house.agent_is_done();
    }
    SECTION("the end of the stream, then that of the processes") {
        house.stream_breaks();
        CHECK(std::ranges::count(house.told(), std::string("done")) == 0);
        house.process_dies(k_oom);
    }
    SECTION("the end of the processes, then that of the stream") {
        house.process_dies(k_oom);
        house.stream_breaks();
    }
    house.settle();
    CHECK(house.told() == std::vector<std::string>{"turn_start", "error oom", "done",
                                                   "sandbox_terminated oom", "sandbox_paused"});
}

TEST_CASE("a SIGKILL from outside is told as such, whatever is seen first") {
    DyingHouse house;
    const bool in_turn = GENERATE(true, false);
    const bool is_exit_first = GENERATE(true, false);
    CAPTURE(in_turn, is_exit_first);
    if (in_turn)
        house.open_turn();
    if (is_exit_first)
        house.process_dies(k_signalled);
    else
        house.control_stream_breaks();
    if (in_turn)
        house.stream_breaks();
    if (!is_exit_first)
        house.process_dies(k_signalled);
    const std::vector<std::string> told = house.told();
    const std::vector<std::string> end{"sandbox_terminated signalled", "sandbox_paused"};
    REQUIRE(told.size() >= end.size());
    CHECK(std::vector<std::string>(told.end() - 2, told.end()) == end);
    if (in_turn)
        CHECK(told.at(1) == "error sandbox_crashed");
    CHECK(house.sandboxes->stats().exits[ExitClass::signalled] == 1);
    CHECK(house.sandboxes->stats().exits[ExitClass::killed] == 0);
}

TEST_CASE("a pause and a delete are ends that the server means") {
    DyingHouse house;
    REQUIRE(house.pause(house.id));
    CHECK(house.sandboxes->stats().exits[ExitClass::stopped] == 1);
    REQUIRE(house.resume(house.id));
    REQUIRE(house.answer<void>([&](auto reply) { house.conversations->remove(house.id, std::move(reply)); })
                .has_value());
    CHECK(house.sandboxes->stats().exits[ExitClass::stopped] == 2);
}

}  // namespace sandbox_ends_test
