// Leases in the conversation's machine: the table in core/conversation/README.md, row by row.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/core/machine_steps.hpp"

namespace lease_machine_test {

using namespace atl;
using namespace atl::conversation;
using namespace atl::test;
using conversation::Status;

namespace {

Machine paused() {
    Machine machine;
    machine.restore(Status::paused, PauseReason::user);
    return machine;
}

/// Its generation is there for one request.
Machine borrowed() {
    Machine machine = paused();
    machine.acquire_lease(LeaseUse::request);
    machine.sandbox_started();
    return machine;
}

Machine frozen() {
    Machine machine = active();
    machine.freeze(PauseReason::idle, "idle");
    machine.sandbox_frozen();
    return machine;
}

/// True if no action is visible to a client.
bool is_silent(const Actions& actions) {
    return count(actions, k<action::LogSandboxReady>) + count(actions, k<action::LogSandboxResumed>) +
               count(actions, k<action::LogSandboxPaused>) + count(actions, k<action::LogSandboxTerminated>) +
               count(actions, k<action::LogTurnError>) ==
           0;
}

}  // namespace

TEST_CASE("A request on an active conversation is granted at once and holds nothing else up") {
    Machine machine = active();
    CHECK(kinds(machine.acquire_lease(LeaseUse::request)) == std::vector{k<action::GrantLeases>});
    CHECK(machine.is_in_use());
    CHECK_FALSE(machine.is_borrowed());
    CHECK(kinds(machine.open_turn()) == std::vector{k<action::SendQuery>});
    CHECK(machine.release_lease(LeaseUse::request).empty());
    CHECK(machine.status() == Status::active);
}

TEST_CASE("A request on a paused conversation borrows a generation without an agent, in silence") {
    Machine machine = paused();
    const Actions begun = machine.acquire_lease(LeaseUse::request);
    CHECK(first<action::StartSandbox>(begun).agent == AgentStart::on_demand);
    const Actions up = machine.sandbox_started();
    CHECK(kinds(up) == std::vector{k<action::Persist>, k<action::GrantLeases>});
    CHECK(machine.status() == Status::paused);
    CHECK(machine.reason() == PauseReason::user);
    CHECK(kinds(machine.release_lease(LeaseUse::request)) == std::vector{k<action::ArmLeaseGrace>});
    const Actions over = machine.lease_grace_passed();
    CHECK(kinds(over) == std::vector{k<action::StopSandbox>});
    CHECK(is_silent(machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""})));
    CHECK(machine.status() == Status::paused);
    CHECK_FALSE(machine.sandbox_living());
}

TEST_CASE("A request within the grace keeps the borrowed generation") {
    Machine machine = borrowed();
    machine.release_lease(LeaseUse::request);
    const Actions again = machine.acquire_lease(LeaseUse::request);
    CHECK(kinds(again) == std::vector{k<action::DisarmLeaseGrace>, k<action::GrantLeases>});
    CHECK(machine.lease_grace_passed().empty());
    CHECK(machine.sandbox_up());
}

TEST_CASE("A message takes a borrowed generation over and has the agent started in it") {
    Machine machine = borrowed();
    const Actions taken = machine.open_turn();
    CHECK(kinds(taken) ==
          std::vector{k<action::LogSandboxResumed>, k<action::Persist>, k<action::StartAgent>});
    CHECK(machine.status() == Status::active);
    CHECK(kinds(machine.agent_started()) == std::vector{k<action::AnswerStarted>, k<action::SendQuery>});
    // The request's end is the conversation's business no more.
    CHECK(machine.release_lease(LeaseUse::request).empty());
}

TEST_CASE("A message that comes while a generation starts for a request waits for that one") {
    Machine machine = paused();
    machine.acquire_lease(LeaseUse::request);
    CHECK(machine.open_turn().empty());
    CHECK(machine.status() == Status::starting);
    const Actions up = machine.sandbox_started();
    CHECK(count(up, k<action::GrantLeases>) == 1);
    CHECK(count(up, k<action::StartAgent>) == 1);
    CHECK(count(up, k<action::SendQuery>) == 0);
    CHECK(count(machine.agent_started(), k<action::SendQuery>) == 1);
}

TEST_CASE("An agent that cannot be started ends the turn; the generation stays") {
    Machine machine = borrowed();
    machine.open_turn();
    const Actions failed = machine.agent_start_failed("agent_failed", "no such program");
    CHECK(first<action::LogTurnError>(failed).code == "agent_failed");
    CHECK(count(failed, k<action::CloseTurn>) == 1);
    CHECK(machine.status() == Status::active);
    CHECK(count(machine.open_turn(), k<action::StartAgent>) == 1);
}

TEST_CASE("A resume waits for the agent") {
    Machine machine = borrowed();
    const Actions taken = machine.resume();
    CHECK(count(taken, k<action::StartAgent>) == 1);
    CHECK(count(taken, k<action::AnswerStarted>) == 0);
    CHECK(kinds(machine.agent_started()) == std::vector{k<action::AnswerStarted>});
}

TEST_CASE("A process makes a paused conversation active, its agent on demand") {
    Machine machine = paused();
    const Actions begun = machine.acquire_lease(LeaseUse::process);
    CHECK(first<action::StartSandbox>(begun).agent == AgentStart::on_demand);
    CHECK(machine.status() == Status::starting);
    const Actions up = machine.sandbox_started();
    CHECK(count(up, k<action::LogSandboxResumed>) == 1);
    CHECK(count(up, k<action::GrantLeases>) == 1);
    CHECK(count(up, k<action::StartAgent>) == 0);
    CHECK(machine.status() == Status::active);
    CHECK_FALSE(machine.is_in_use());
    CHECK(count(machine.open_turn(), k<action::StartAgent>) == 1);
}

TEST_CASE("A process takes a borrowed generation over") {
    Machine machine = borrowed();
    const Actions taken = machine.acquire_lease(LeaseUse::process);
    CHECK(count(taken, k<action::LogSandboxResumed>) == 1);
    CHECK(count(taken, k<action::GrantLeases>) == 1);
    CHECK(machine.status() == Status::active);
}

TEST_CASE("A start that fails refuses the requests that wait and leaves the status as it was") {
    Machine machine = paused();
    machine.acquire_lease(LeaseUse::request);
    const Actions failed = machine.sandbox_start_failed("no bwrap");
    CHECK(first<action::EndLeases>(failed).code == "sandbox_failed");
    CHECK(is_silent(failed));
    CHECK(machine.status() == Status::paused);
    CHECK(machine.reason() == PauseReason::user);
    CHECK_FALSE(machine.is_in_use());
}

TEST_CASE("A frozen generation is thawed for a request and frozen again, and the log says nothing") {
    Machine machine = frozen();
    const Actions thawed = machine.acquire_lease(LeaseUse::request);
    CHECK(kinds(thawed) == std::vector{k<action::ThawSandbox>, k<action::GrantLeases>});
    CHECK(machine.status() == Status::paused);
    machine.release_lease(LeaseUse::request);
    CHECK(kinds(machine.lease_grace_passed()) == std::vector{k<action::FreezeSandbox>});
    CHECK(is_silent(machine.sandbox_frozen()));
    CHECK(machine.sandbox_is_frozen());
    CHECK(machine.reason() == PauseReason::idle);
    // A message still finds the agent in it.
    const Actions message = machine.open_turn();
    CHECK(first<action::LogSandboxResumed>(message).mode == PauseMode::warm);
    CHECK(count(message, k<action::SendQuery>) == 1);
}

TEST_CASE("A request that comes while the generation is being frozen has it thawed after that") {
    Machine machine = active();
    machine.freeze(PauseReason::user, "paused");
    CHECK(machine.acquire_lease(LeaseUse::request).empty());
    const Actions done = machine.sandbox_frozen();
    CHECK(first<action::LogSandboxPaused>(done).mode == PauseMode::warm);
    CHECK(count(done, k<action::ThawSandbox>) == 1);
    CHECK(count(done, k<action::GrantLeases>) == 1);
    CHECK(machine.status() == Status::paused);
}

TEST_CASE("A warm pause is told at once and waits for the last request, not for a process") {
    Machine machine = active();
    machine.acquire_lease(LeaseUse::process);
    machine.acquire_lease(LeaseUse::request);
    const Actions paused = machine.freeze(PauseReason::user, "paused");
    CHECK(count(paused, k<action::FreezeSandbox>) == 0);
    CHECK(first<action::LogSandboxPaused>(paused).mode == PauseMode::warm);
    CHECK(count(paused, k<action::AnswerPaused>) == 1);
    CHECK(machine.status() == Status::paused);
    machine.release_lease(LeaseUse::request);
    CHECK(count(machine.lease_grace_passed(), k<action::FreezeSandbox>) == 1);
    CHECK(machine.sandbox_frozen().empty());
    CHECK(machine.sandbox_is_frozen());
}

TEST_CASE("A generation that cannot be frozen again is stopped, and that is told") {
    Machine machine = frozen();
    machine.acquire_lease(LeaseUse::request);
    machine.release_lease(LeaseUse::request);
    machine.lease_grace_passed();
    CHECK(kinds(machine.sandbox_freeze_failed()) == std::vector{k<action::StopSandbox>});
    const Actions gone = machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(first<action::LogSandboxPaused>(gone).mode == PauseMode::cold);
    CHECK(machine.reason() == PauseReason::idle);
}

TEST_CASE("A cold pause revokes every lease") {
    Machine machine = active();
    machine.acquire_lease(LeaseUse::request);
    machine.acquire_lease(LeaseUse::process);
    const Actions ended = machine.pause(PauseReason::user, "paused", "paused by the user");
    CHECK(first<action::EndLeases>(ended).scope == action::LeaseScope::all);
    CHECK(count(ended, k<action::StopSandbox>) == 1);
    CHECK_FALSE(machine.is_in_use());

    Machine other = borrowed();
    const Actions stopped = other.pause(PauseReason::user, "paused", "paused by the user");
    CHECK(count(stopped, k<action::EndLeases>) == 1);
    const Actions gone = other.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(is_silent(gone));
    CHECK(count(gone, k<action::AnswerPaused>) == 1);
}

TEST_CASE("A borrowed generation that dies takes its leases along and changes nothing else") {
    Machine machine = borrowed();
    const Actions gone = machine.sandbox_exited({sandbox::ExitClass::oom, 9, "too much memory"});
    CHECK(first<action::EndLeases>(gone).code == "oom");
    CHECK(is_silent(gone));
    CHECK(machine.status() == Status::paused);
    CHECK(machine.reason() == PauseReason::user);
}

TEST_CASE("The generation of a warm pause that dies under a request is told to be gone") {
    Machine machine = frozen();
    machine.acquire_lease(LeaseUse::request);
    const Actions gone = machine.sandbox_exited({sandbox::ExitClass::oom, 9, "too much memory"});
    CHECK(count(gone, k<action::LogSandboxTerminated>) == 1);
    CHECK(first<action::LogSandboxPaused>(gone).reason == PauseReason::oom);
    CHECK(count(gone, k<action::EndLeases>) == 1);
}

TEST_CASE("The death of an active generation pauses it and ends its leases") {
    Machine machine = active();
    machine.acquire_lease(LeaseUse::process);
    const Actions gone = machine.sandbox_exited(crash());
    CHECK(first<action::EndLeases>(gone).scope == action::LeaseScope::held);
    CHECK(machine.reason() == PauseReason::crash);
}

TEST_CASE("A request that comes while the generation goes down gets the next one") {
    Machine machine = active();
    machine.pause(PauseReason::user, "paused", "paused");
    CHECK(machine.acquire_lease(LeaseUse::request).empty());
    const Actions next = machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(first<action::StartSandbox>(next).agent == AgentStart::on_demand);
    CHECK(machine.status() == Status::paused);
    CHECK(count(machine.sandbox_started(), k<action::GrantLeases>) == 1);
}

TEST_CASE("A process that comes while the generation goes down makes the next one active") {
    Machine machine = active();
    machine.pause(PauseReason::user, "paused", "paused");
    machine.acquire_lease(LeaseUse::process);
    machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    machine.sandbox_started();
    CHECK(machine.status() == Status::active);
}

TEST_CASE("An agent that ends takes the generation along unless something else needs it") {
    Machine alone = active();
    CHECK(count(alone.agent_exited("exited 1"), k<action::StopSandbox>) == 1);

    Machine shared = active();
    shared.acquire_lease(LeaseUse::process);
    CHECK(shared.agent_exited("exited 1").empty());
    CHECK(shared.status() == Status::active);
    CHECK(count(shared.open_turn(), k<action::StartAgent>) == 1);

    Machine in_turn = active();
    in_turn.acquire_lease(LeaseUse::request);
    in_turn.open_turn();
    in_turn.agent_exited("exited 1");
    const Actions failed = in_turn.query_failed("agent_crashed", "eof", Machine::Reported::no);
    CHECK(count(failed, k<action::LogTurnDone>) == 1);
    CHECK(count(failed, k<action::StopSandbox>) == 0);
}

TEST_CASE("An agent whose end is heard of before its start has failed to start") {
    Machine machine = borrowed();
    machine.open_turn();
    const Actions failed = machine.agent_exited("exited 1");
    CHECK(first<action::LogTurnError>(failed).code == "agent_failed");
    CHECK(machine.agent_started().empty());
}

TEST_CASE("Deletion ends leases and says nothing of a borrowed generation") {
    Machine machine = borrowed();
    const Actions ended = machine.end("conversation_deleted", "deleted");
    CHECK(first<action::EndLeases>(ended).code == "conversation_ended");
    CHECK(count(ended, k<action::LogSandboxTerminated>) == 0);
    CHECK(count(ended, k<action::RemoveSandbox>) == 1);
    CHECK_FALSE(machine.can_lease());
}

TEST_CASE("A conversation in error stays so for a request, and becomes paused when it is paused") {
    Machine machine;
    machine.restore(Status::error, PauseReason::none);
    machine.acquire_lease(LeaseUse::request);
    machine.sandbox_started();
    CHECK(machine.status() == Status::error);
    const Actions paused = machine.pause(PauseReason::user, "paused", "paused");
    CHECK(first<action::LogSandboxPaused>(paused).reason == PauseReason::user);
    CHECK(machine.status() == Status::paused);
    CHECK(is_silent(machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""})));
}

TEST_CASE("A warm pause of a conversation in error is a pause like any other") {
    Machine machine;
    machine.restore(Status::error, PauseReason::none);
    machine.acquire_lease(LeaseUse::request);
    machine.sandbox_started();
    machine.release_lease(LeaseUse::request);
    const Actions paused = machine.freeze(PauseReason::user, "paused");
    CHECK(first<action::LogSandboxPaused>(paused).mode == PauseMode::cold);
    CHECK(count(paused, k<action::StopSandbox>) == 1);
    CHECK(machine.status() == Status::paused);
    const Actions gone = machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""});
    CHECK(is_silent(gone));
    CHECK(count(gone, k<action::AnswerPaused>) == 1);
}

TEST_CASE("Eviction and the end of the server leave an error to be seen") {
    Machine machine;
    machine.restore(Status::error, PauseReason::none);
    machine.acquire_lease(LeaseUse::request);
    machine.sandbox_started();
    const Actions ended = machine.pause(PauseReason::evicted, "paused", "needed elsewhere");
    CHECK(is_silent(ended));
    CHECK(count(ended, k<action::EndLeases>) == 1);
    CHECK(is_silent(machine.sandbox_exited({sandbox::ExitClass::killed, 0, ""})));
    CHECK(machine.status() == Status::error);
}

TEST_CASE("A resume that comes after a pause of a start gets a generation with its agent") {
    Machine machine = paused();
    machine.resume();
    machine.pause(PauseReason::user, "paused", "paused");
    machine.resume();
    const Actions next = machine.sandbox_start_failed("it was stopped first");
    CHECK(first<action::StartSandbox>(next).agent == AgentStart::at_once);
    CHECK(count(next, k<action::AnswerStarted>) == 0);
    CHECK(count(machine.sandbox_started(), k<action::AnswerStarted>) == 1);
}

TEST_CASE("The later pause wins over a resume or a process that came while the generation was being frozen") {
    Machine resumed = frozen();
    resumed.acquire_lease(LeaseUse::request);
    resumed.release_lease(LeaseUse::request);
    resumed.lease_grace_passed();
    resumed.resume();
    const Actions again = resumed.freeze(PauseReason::user, "paused");
    CHECK(first<action::AnswerStarted>(again).code == "paused");
    CHECK(count(again, k<action::AnswerPaused>) == 1);
    resumed.sandbox_frozen();
    CHECK(resumed.sandbox_is_frozen());

    Machine leased = active();
    leased.freeze(PauseReason::user, "paused");
    leased.acquire_lease(LeaseUse::process);
    CHECK(first<action::EndLeases>(leased.freeze(PauseReason::user, "paused")).scope ==
          action::LeaseScope::waiting);
    leased.sandbox_frozen();
    CHECK(leased.sandbox_is_frozen());
    CHECK(leased.status() == Status::paused);
}

TEST_CASE("A generation that the server stops for its agent ends the leases on it at once") {
    Machine machine = active();
    machine.acquire_lease(LeaseUse::request);
    machine.open_turn();
    machine.interrupt();
    const Actions stopped = machine.grace_passed();
    CHECK(first<action::EndLeases>(stopped).scope == action::LeaseScope::held);
    CHECK(count(stopped, k<action::StopSandbox>) == 1);
}

}  // namespace lease_machine_test
