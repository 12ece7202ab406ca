#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "core/conversation/machine.hpp"

using namespace atl;
using namespace atl::conversation;
using Kind = Action::Kind;

namespace {

std::vector<Kind> kinds(const Actions& actions) {
    std::vector<Kind> out;
    for (const auto& action : actions)
        out.push_back(action.kind);
    return out;
}

std::size_t count(const Actions& actions, Kind kind) {
    const auto all = kinds(actions);
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), kind));
}

Machine active() {
    Machine machine;
    machine.create();
    machine.sandbox_started();
    return machine;
}

sandbox::Exit crash() {
    return {sandbox::ExitClass::signalled, 9, "killed"};
}

}  // namespace

TEST_CASE("A conversation starts, runs a turn and is still active after it") {
    Machine machine;
    CHECK(kinds(machine.create()) == std::vector{Kind::start_sandbox});
    CHECK(machine.status() == conversation::Status::starting);
    CHECK(kinds(machine.sandbox_started()) ==
          std::vector{Kind::log_session_start, Kind::log_sandbox_ready, Kind::persist, Kind::answer_started});
    CHECK(kinds(machine.open_turn()) == std::vector{Kind::send_query});
    CHECK_FALSE(machine.can_open_turn());
    CHECK(kinds(machine.turn_done()) == std::vector{Kind::disarm_grace, Kind::close_turn});
    CHECK(machine.can_open_turn());
    CHECK(machine.status() == conversation::Status::active);
}

TEST_CASE("A first start that fails leaves nothing to talk to") {
    Machine machine;
    machine.create();
    CHECK(kinds(machine.sandbox_start_failed("why")) == std::vector{Kind::discard});
    CHECK(machine.status() == conversation::Status::ended);
    CHECK_FALSE(machine.can_open_turn());
}

TEST_CASE("A sandbox that dies in a turn ends the turn once, after its stream, and pauses the conversation") {
    Machine machine = active();
    machine.open_turn();
    CHECK(kinds(machine.sandbox_exited(crash())) == std::vector{Kind::arm_grace});
    const Actions ended = machine.query_failed("agent_crashed", "eof", Machine::Reported::no);
    CHECK(count(ended, Kind::log_turn_done) == 1);
    CHECK(count(ended, Kind::log_turn_error) == 1);
    CHECK(count(ended, Kind::log_sandbox_terminated) == 1);
    CHECK(machine.status() == conversation::Status::paused);
    CHECK(machine.reason() == PauseReason::crash);
    CHECK(machine.grace_passed().empty());
}

TEST_CASE("An agent that says done while its sandbox dies has ended its turn well") {
    Machine machine = active();
    machine.open_turn();
    machine.sandbox_exited(crash());
    const Actions ended = machine.turn_done();
    CHECK(count(ended, Kind::log_turn_error) == 0);
    CHECK(machine.status() == conversation::Status::paused);
}

TEST_CASE("An out-of-memory kill is told apart from a crash") {
    Machine machine = active();
    machine.sandbox_exited({sandbox::ExitClass::oom, 9, ""});
    CHECK(machine.reason() == PauseReason::oom);
    Machine other = active();
    other.sandbox_exited({sandbox::ExitClass::disk_limit, 9, ""});
    CHECK(other.reason() == PauseReason::disk);
}

TEST_CASE("A message to a paused conversation resumes it and is sent once its sandbox is up") {
    Machine machine;
    machine.restore(conversation::Status::paused, PauseReason::server_restart);
    CHECK(kinds(machine.open_turn()) == std::vector{Kind::start_sandbox});
    CHECK(kinds(machine.sandbox_started()) ==
          std::vector{Kind::log_sandbox_resumed, Kind::persist, Kind::answer_started, Kind::send_query});
}

TEST_CASE("A resume that fails ends the waiting turn and a later message tries again") {
    Machine machine;
    machine.restore(conversation::Status::paused, PauseReason::user);
    machine.open_turn();
    const Actions failed = machine.sandbox_start_failed("no bwrap");
    CHECK(count(failed, Kind::log_turn_error) == 1);
    CHECK(count(failed, Kind::log_turn_done) == 1);
    CHECK(machine.status() == conversation::Status::error);
    CHECK(kinds(machine.open_turn()) == std::vector{Kind::start_sandbox});
}

TEST_CASE("An ignored interrupt costs the agent its sandbox") {
    Machine machine = active();
    machine.open_turn();
    CHECK(kinds(machine.interrupt()) == std::vector{Kind::send_interrupt, Kind::arm_grace});
    CHECK(machine.interrupt().empty());
    const Actions late = machine.grace_passed();
    CHECK(count(late, Kind::log_turn_done) == 1);
    CHECK(count(late, Kind::stop_sandbox) == 1);
    machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(machine.status() == conversation::Status::paused);
    CHECK(machine.reason() == PauseReason::crash);
}

TEST_CASE("An agent that dies between turns takes its sandbox down, and the next message starts afresh") {
    Machine machine = active();
    CHECK(count(machine.agent_exited("exited 1"), Kind::stop_sandbox) == 1);
    CHECK(machine.open_turn().empty());
    const Actions exited = machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(count(exited, Kind::start_sandbox) == 1);
    CHECK(count(machine.sandbox_started(), Kind::send_query) == 1);
}

TEST_CASE("A pause in the middle of a turn ends the turn first") {
    Machine machine = active();
    machine.open_turn();
    const Actions paused = machine.pause(PauseReason::user, "paused", "by request");
    CHECK(count(paused, Kind::log_turn_done) == 1);
    CHECK(count(paused, Kind::drop_query) == 1);
    CHECK(count(paused, Kind::stop_sandbox) == 1);
    const Actions down = machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(count(down, Kind::answer_paused) == 1);
    CHECK(machine.reason() == PauseReason::user);
}

TEST_CASE("After the end nothing comes back to life") {
    Machine machine = active();
    machine.open_turn();
    const Actions ended = machine.end("conversation_deleted", "by request");
    CHECK(count(ended, Kind::log_turn_done) == 1);
    CHECK(count(ended, Kind::remove_sandbox) == 1);
    CHECK(machine.end("again", "").empty());
    CHECK(machine.sandbox_exited(crash()).empty());
    CHECK(machine.sandbox_started().empty());
    CHECK(machine.resume().empty());
    CHECK_FALSE(machine.can_open_turn());
}

TEST_CASE("A warm pause freezes the sandbox, and a message lets it go on and is sent") {
    Machine machine = active();
    CHECK(count(machine.freeze(PauseReason::user, "by request"), Kind::freeze_sandbox) == 1);
    CHECK(machine.status() == conversation::Status::active);
    CHECK(kinds(machine.sandbox_frozen()) ==
          std::vector{Kind::log_sandbox_paused, Kind::persist, Kind::answer_paused});
    CHECK(machine.status() == conversation::Status::paused);
    CHECK(machine.reason() == PauseReason::user);
    CHECK(machine.sandbox_is_frozen());
    CHECK(kinds(machine.open_turn()) == std::vector{Kind::thaw_sandbox, Kind::log_sandbox_resumed,
                                                    Kind::persist, Kind::answer_started, Kind::send_query});
    CHECK(machine.status() == conversation::Status::active);
    CHECK(machine.turn_running());
}

TEST_CASE("A message or a resume that comes while the sandbox is being frozen lets it go on right after") {
    Machine machine = active();
    machine.freeze(PauseReason::idle, "idle");
    CHECK(machine.open_turn().empty());
    const Actions after = machine.sandbox_frozen();
    CHECK(count(after, Kind::log_sandbox_paused) == 1);
    CHECK(count(after, Kind::thaw_sandbox) == 1);
    CHECK(count(after, Kind::send_query) == 1);
    Machine other = active();
    other.freeze(PauseReason::idle, "idle");
    CHECK(other.resume().empty());
    CHECK(count(other.sandbox_frozen(), Kind::thaw_sandbox) == 1);
    CHECK(other.sandbox_up());
}

TEST_CASE("A sandbox that does not stand still is paused cold") {
    Machine machine = active();
    machine.freeze(PauseReason::user, "by request");
    CHECK(kinds(machine.sandbox_freeze_failed()) == std::vector{Kind::stop_sandbox});
    CHECK(machine.sandbox_frozen().empty());
    CHECK(count(machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""}), Kind::answer_paused) == 1);
    CHECK(machine.reason() == PauseReason::user);
}

TEST_CASE("A frozen sandbox can be paused cold, die, or lose its agent") {
    const auto frozen = [] {
        Machine machine = active();
        machine.freeze(PauseReason::user, "by request");
        machine.sandbox_frozen();
        return machine;
    };
    Machine colder = frozen();
    CHECK(count(colder.pause(PauseReason::evicted, "paused", "no room"), Kind::stop_sandbox) == 1);
    colder.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(colder.reason() == PauseReason::evicted);
    CHECK(count(colder.open_turn(), Kind::start_sandbox) == 1);

    Machine dead = frozen();
    CHECK(count(dead.sandbox_exited({sandbox::ExitClass::oom, 9, ""}), Kind::log_sandbox_terminated) == 1);
    CHECK(dead.reason() == PauseReason::oom);

    Machine headless = frozen();
    CHECK(count(headless.agent_exited("exited 1"), Kind::stop_sandbox) == 1);

    Machine removed = frozen();
    CHECK(count(removed.end("conversation_deleted", "by request"), Kind::remove_sandbox) == 1);
}

TEST_CASE("A second warm pause changes nothing, and one of a sandbox that is not up is cold") {
    Machine machine = active();
    machine.freeze(PauseReason::idle, "idle");
    CHECK(count(machine.freeze(PauseReason::user, "by request"), Kind::freeze_sandbox) == 0);
    machine.sandbox_frozen();
    CHECK(machine.reason() == PauseReason::idle);
    CHECK(kinds(machine.freeze(PauseReason::user, "by request")) == std::vector{Kind::answer_paused});
    Machine paused;
    paused.restore(conversation::Status::paused, PauseReason::user);
    CHECK(count(paused.freeze(PauseReason::user, "by request"), Kind::answer_paused) == 1);
    CHECK_FALSE(paused.sandbox_living());
}
