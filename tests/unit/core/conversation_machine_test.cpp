#include <catch2/catch_test_macros.hpp>

#include "tests/unit/core/machine_steps.hpp"

namespace conversation_machine_test {

using namespace atl;
using namespace atl::conversation;
using namespace atl::test;

TEST_CASE("A conversation starts, runs a turn and is still active after it") {
    Machine machine;
    CHECK(kinds(machine.create()) == std::vector{k<action::StartSandbox>});
    CHECK(machine.status() == conversation::Status::starting);
    CHECK(kinds(machine.sandbox_started()) == std::vector{k<action::LogSessionStart>,
                                                          k<action::LogSandboxReady>, k<action::Persist>,
                                                          k<action::AnswerStarted>});
    CHECK(kinds(machine.open_turn()) == std::vector{k<action::SendQuery>});
    CHECK_FALSE(machine.can_open_turn());
    CHECK(kinds(machine.turn_done()) == std::vector{k<action::DisarmGrace>, k<action::CloseTurn>});
    CHECK(machine.can_open_turn());
    CHECK(machine.status() == conversation::Status::active);
}

TEST_CASE(
    "An agent of a warm sandbox that ends before the sandbox is taken over is started anew for the first "
    "turn") {
    Machine machine;
    machine.create();
    CHECK(machine.agent_exited("exited 1").empty());
    CHECK(count(machine.sandbox_started(), k<action::StartAgent>) == 0);
    CHECK(machine.status() == conversation::Status::active);
    CHECK(kinds(machine.open_turn()) == std::vector{k<action::StartAgent>});
    CHECK(count(machine.agent_started(), k<action::SendQuery>) == 1);

    Machine awaited;
    awaited.create();
    awaited.resume();
    awaited.agent_exited("exited 1");
    CHECK(count(awaited.sandbox_started(), k<action::StartAgent>) == 1);
}

TEST_CASE("A first start that fails leaves nothing to talk to") {
    Machine machine;
    machine.create();
    CHECK(kinds(machine.sandbox_start_failed("why")) == std::vector{k<action::Discard>});
    CHECK(machine.status() == conversation::Status::ended);
    CHECK_FALSE(machine.can_open_turn());
}

TEST_CASE("A sandbox that dies in a turn ends the turn once, after its stream, and pauses the conversation") {
    Machine machine = active();
    machine.open_turn();
    CHECK(kinds(machine.sandbox_exited(crash())) == std::vector{k<action::ArmGrace>});
    const Actions ended = machine.query_failed("agent_crashed", "eof", Machine::Reported::no);
    CHECK(count(ended, k<action::LogTurnDone>) == 1);
    CHECK(count(ended, k<action::LogTurnError>) == 1);
    CHECK(count(ended, k<action::LogSandboxTerminated>) == 1);
    CHECK(machine.status() == conversation::Status::paused);
    CHECK(machine.reason() == PauseReason::crash);
    CHECK(machine.grace_passed().empty());
}

TEST_CASE("A turn whose stream breaks off ends with what ended its sandbox or its agent, a moment later") {
    using Reported = Machine::Reported;
    const auto broken = [](Reported reported) {
        Machine machine = active();
        machine.open_turn();
        const Actions broke = machine.query_broke("agent_crashed", "eof", reported);
        CHECK(kinds(broke) == std::vector{k<action::ArmGrace>});
        CHECK(first<action::ArmGrace>(broke).wait < base::k_interrupt_deadline);
        CHECK(machine.turn_open());
        return machine;
    };
    Machine killed = broken(Reported::no);
    const Actions ended = killed.sandbox_exited(crash());
    CHECK(first<action::LogTurnError>(ended).code == "sandbox_crashed");
    CHECK(first<action::LogTurnError>(ended).message == "killed");
    CHECK(count(ended, k<action::LogTurnDone>) == 1);
    CHECK(first<action::LogSandboxTerminated>(ended).exit.exit_class == sandbox::ExitClass::signalled);
    CHECK(killed.grace_passed().empty());

    // An error that the agent reported does not tell of a limit.
    const Actions over =
        broken(Reported::yes).sandbox_exited({sandbox::ExitClass::oom, 9, "too much memory"});
    CHECK(first<action::LogTurnError>(over).code == "oom");
    CHECK(count(broken(Reported::yes).sandbox_exited(crash()), k<action::LogTurnError>) == 0);

    Machine headless = broken(Reported::no);
    const Actions crashed = headless.agent_exited("exited 1");
    CHECK(first<action::LogTurnError>(crashed).message == "exited 1");
    CHECK(first<action::StopSandbox>(crashed).exit_class == sandbox::ExitClass::killed);

    Machine silent = broken(Reported::no);
    CHECK(silent.interrupt().empty());
    const Actions late = silent.grace_passed();
    CHECK(first<action::LogTurnError>(late).message == "eof");
    CHECK(count(late, k<action::LogTurnDone>) == 1);
    CHECK(silent.sandbox_up());
}

TEST_CASE("The end of an agent is not told as the cause where its sandbox died of something else") {
    Machine machine = active();
    machine.agent_exited("exited 1");
    const Actions down = machine.sandbox_exited({sandbox::ExitClass::oom, 9, "too much memory"});
    CHECK(first<action::LogSandboxPaused>(down).reason == PauseReason::oom);
    CHECK(first<action::LogSandboxPaused>(down).detail == "too much memory");
}

TEST_CASE("A sandbox is stopped for a client's ends and killed for those of others") {
    const auto stopped_for = [](PauseReason reason) {
        Machine machine = active();
        return first<action::StopSandbox>(machine.pause(reason, "paused", "text")).exit_class;
    };
    for (const auto own : {PauseReason::user, PauseReason::idle, PauseReason::server_restart})
        CHECK(stopped_for(own) == sandbox::ExitClass::stopped);
    CHECK(stopped_for(PauseReason::evicted) == sandbox::ExitClass::killed);
    Machine ended = active();
    CHECK(first<action::LogSandboxTerminated>(ended.end("conversation_deleted", "by request"))
              .exit.exit_class == sandbox::ExitClass::stopped);
}

TEST_CASE("An agent that says done while its sandbox dies has ended its turn well") {
    Machine machine = active();
    machine.open_turn();
    machine.sandbox_exited(crash());
    const Actions ended = machine.turn_done();
    CHECK(count(ended, k<action::LogTurnError>) == 0);
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
    CHECK(kinds(machine.open_turn()) == std::vector{k<action::StartSandbox>});
    CHECK(kinds(machine.sandbox_started()) == std::vector{k<action::LogSandboxResumed>, k<action::Persist>,
                                                          k<action::AnswerStarted>, k<action::SendQuery>});
}

TEST_CASE("A resume that fails ends the waiting turn and a later message tries again") {
    Machine machine;
    machine.restore(conversation::Status::paused, PauseReason::user);
    machine.open_turn();
    const Actions failed = machine.sandbox_start_failed("no bwrap");
    CHECK(count(failed, k<action::LogTurnError>) == 1);
    CHECK(count(failed, k<action::LogTurnDone>) == 1);
    CHECK(machine.status() == conversation::Status::error);
    CHECK(kinds(machine.open_turn()) == std::vector{k<action::StartSandbox>});
}

TEST_CASE("An agent that cannot start is told from a sandbox that cannot") {
    Machine machine;
    machine.create();
    CHECK(first<action::Discard>(machine.sandbox_start_failed("no program", "agent_failed")).code ==
          "agent_failed");
    Machine paused;
    paused.restore(conversation::Status::paused, PauseReason::user);
    paused.open_turn();
    paused.acquire_lease(conversation::LeaseUse::request);
    const Actions failed = paused.sandbox_start_failed("no program", "agent_failed");
    CHECK(first<action::LogTurnError>(failed).code == "agent_failed");
    CHECK(first<action::AnswerStarted>(failed).code == "agent_failed");
    // A request with a lease needs only the sandbox: its next try starts the sandbox without the agent.
    CHECK(first<action::EndLeases>(failed).code == "sandbox_failed");
}

TEST_CASE(
    "An interrupt before the agent is there ends the turn as one of a running agent, without an error") {
    Machine machine;
    machine.restore(conversation::Status::paused, PauseReason::user);
    machine.open_turn();
    const Actions ended = machine.interrupt();
    CHECK(count(ended, k<action::LogTurnInterrupted>) == 1);
    CHECK(count(ended, k<action::LogTurnError>) == 0);
    CHECK(kinds(ended).front() == k<action::LogTurnInterrupted>);
    CHECK(count(ended, k<action::LogTurnDone>) == 1);
    CHECK(count(ended, k<action::CloseTurn>) == 1);
    CHECK_FALSE(machine.turn_running());
}

TEST_CASE("An ignored interrupt costs the agent its sandbox") {
    Machine machine = active();
    machine.open_turn();
    CHECK(kinds(machine.interrupt()) == std::vector{k<action::SendInterrupt>, k<action::ArmGrace>});
    CHECK(machine.interrupt().empty());
    const Actions late = machine.grace_passed();
    CHECK(count(late, k<action::LogTurnDone>) == 1);
    CHECK(count(late, k<action::StopSandbox>) == 1);
    machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(machine.status() == conversation::Status::paused);
    CHECK(machine.reason() == PauseReason::crash);
}

TEST_CASE("An agent that dies between turns takes its sandbox down, and the next message starts afresh") {
    Machine machine = active();
    CHECK(count(machine.agent_exited("exited 1"), k<action::StopSandbox>) == 1);
    CHECK(machine.open_turn().empty());
    const Actions exited = machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(count(exited, k<action::StartSandbox>) == 1);
    CHECK(count(machine.sandbox_started(), k<action::SendQuery>) == 1);
}

TEST_CASE("A pause in the middle of a turn ends the turn first") {
    Machine machine = active();
    machine.open_turn();
    const Actions paused = machine.pause(PauseReason::user, "paused", "by request");
    CHECK(count(paused, k<action::LogTurnDone>) == 1);
    CHECK(count(paused, k<action::DropQuery>) == 1);
    CHECK(count(paused, k<action::StopSandbox>) == 1);
    const Actions down = machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(count(down, k<action::AnswerPaused>) == 1);
    CHECK(machine.reason() == PauseReason::user);
}

TEST_CASE("After the end nothing comes back to life") {
    Machine machine = active();
    machine.open_turn();
    const Actions ended = machine.end("conversation_deleted", "by request");
    CHECK(count(ended, k<action::LogTurnDone>) == 1);
    CHECK(count(ended, k<action::RemoveSandbox>) == 1);
    CHECK(machine.reason() == PauseReason::none);
    CHECK(machine.end("again", "").empty());
    CHECK(machine.sandbox_exited(crash()).empty());
    CHECK(machine.sandbox_started().empty());
    CHECK(machine.resume().empty());
    CHECK_FALSE(machine.can_open_turn());
}

TEST_CASE("A warm pause freezes the sandbox, and a message lets it go on and is sent") {
    Machine machine = active();
    CHECK(count(machine.freeze(PauseReason::user, "by request"), k<action::FreezeSandbox>) == 1);
    CHECK(machine.status() == conversation::Status::active);
    CHECK(kinds(machine.sandbox_frozen()) ==
          std::vector{k<action::LogSandboxPaused>, k<action::Persist>, k<action::AnswerPaused>});
    CHECK(machine.status() == conversation::Status::paused);
    CHECK(machine.reason() == PauseReason::user);
    CHECK(machine.sandbox_is_frozen());
    CHECK(kinds(machine.open_turn()) == std::vector{k<action::ThawSandbox>, k<action::LogSandboxResumed>,
                                                    k<action::Persist>, k<action::AnswerStarted>,
                                                    k<action::SendQuery>});
    CHECK(machine.status() == conversation::Status::active);
    CHECK(machine.turn_running());
}

TEST_CASE("A message or a resume that comes while the sandbox is being frozen lets it go on right after") {
    Machine machine = active();
    machine.freeze(PauseReason::idle, "idle");
    CHECK(machine.open_turn().empty());
    const Actions after = machine.sandbox_frozen();
    CHECK(count(after, k<action::LogSandboxPaused>) == 1);
    CHECK(count(after, k<action::ThawSandbox>) == 1);
    CHECK(count(after, k<action::SendQuery>) == 1);
    Machine other = active();
    other.freeze(PauseReason::idle, "idle");
    CHECK(other.resume().empty());
    CHECK(count(other.sandbox_frozen(), k<action::ThawSandbox>) == 1);
    CHECK(other.sandbox_up());
}

TEST_CASE("A sandbox that does not stand still is paused cold") {
    Machine machine = active();
    machine.freeze(PauseReason::user, "by request");
    CHECK(kinds(machine.sandbox_freeze_failed()) == std::vector{k<action::StopSandbox>});
    CHECK(machine.sandbox_frozen().empty());
    CHECK(count(machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""}), k<action::AnswerPaused>) == 1);
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
    CHECK(count(colder.pause(PauseReason::evicted, "paused", "no room"), k<action::StopSandbox>) == 1);
    colder.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(colder.reason() == PauseReason::evicted);
    CHECK(count(colder.open_turn(), k<action::StartSandbox>) == 1);

    Machine dead = frozen();
    CHECK(count(dead.sandbox_exited({sandbox::ExitClass::oom, 9, ""}), k<action::LogSandboxTerminated>) == 1);
    CHECK(dead.reason() == PauseReason::oom);

    Machine headless = frozen();
    CHECK(count(headless.agent_exited("exited 1"), k<action::StopSandbox>) == 1);

    Machine removed = frozen();
    CHECK(count(removed.end("conversation_deleted", "by request"), k<action::RemoveSandbox>) == 1);
}

TEST_CASE("A second warm pause changes nothing, and one of a sandbox that is not up is cold") {
    Machine machine = active();
    machine.freeze(PauseReason::idle, "idle");
    CHECK(count(machine.freeze(PauseReason::user, "by request"), k<action::FreezeSandbox>) == 0);
    machine.sandbox_frozen();
    CHECK(machine.reason() == PauseReason::idle);
    CHECK(kinds(machine.freeze(PauseReason::user, "by request")) == std::vector{k<action::AnswerPaused>});
    Machine paused;
    paused.restore(conversation::Status::paused, PauseReason::user);
    CHECK(count(paused.freeze(PauseReason::user, "by request"), k<action::AnswerPaused>) == 1);
    CHECK_FALSE(paused.sandbox_living());
}

}  // namespace conversation_machine_test
