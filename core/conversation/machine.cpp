#include "core/conversation/machine.hpp"

#include <cassert>
#include <utility>

#include "core/plain/operation_limits.hpp"

namespace atl::conversation {
namespace {

sandbox::Exit exit_of(sandbox::ExitClass exit_class, std::string detail) {
    sandbox::Exit exit;
    exit.exit_class = exit_class;
    exit.detail = std::move(detail);
    return exit;
}

}  // namespace

void Machine::restore(Status status, PauseReason reason) {
    status_ = status;
    reason_ = reason;
    created_ = true;
}

void Machine::begin_start(Actions& out) {
    run_state_ = RunState::starting;
    borrowed_ = false;
    start_again_ = false;
    status_ = Status::starting;
    reason_ = PauseReason::none;
    const bool agent_needed = !created_ || agent_wanted_ || turn_ == Turn::waiting;
    agent_start_ = agent_needed ? AgentStart::at_once : AgentStart::on_demand;
    out.emplace_back(action::StartSandbox{agent_start_});
}

void Machine::begin_borrowed_start(Actions& out) {
    run_state_ = RunState::starting;
    borrowed_ = true;
    agent_start_ = AgentStart::on_demand;
    out.emplace_back(action::StartSandbox{agent_start_});
}

void Machine::begin_stop(Actions& out, PauseReason reason, std::string text, sandbox::ExitClass exit_class) {
    planned_ = reason;
    planned_text_ = text;
    agent_ = Agent::none;
    leases_.end(out, {action::LeaseScope::held, "paused", text});
    leases_.disarm_grace(out);
    if (run_state_ == RunState::stopping)
        return;
    run_state_ = RunState::stopping;
    out.emplace_back(action::StopSandbox{std::move(text), exit_class});
}

void Machine::begin_thaw(Actions& out) {
    run_state_ = RunState::up;
    borrowed_ = true;
    out.emplace_back(action::ThawSandbox{});
    become_active(out);
}

void Machine::begin_borrowed_thaw(Actions& out) {
    run_state_ = RunState::up;
    borrowed_ = true;
    out.emplace_back(action::ThawSandbox{});
    leases_.grant(out);
}

/// Gives the generation that is there to the conversation, as far as that can be done now.
void Machine::activate(Actions& out) {
    switch (run_state_) {
        case RunState::absent:
            return begin_start(out);
        case RunState::starting:
            return take_over_start();
        case RunState::up:
            if (borrowed_)
                return become_active(out);
            leases_.grant(out);
            return use_agent(out);
        case RunState::frozen:
            return begin_thaw(out);
        case RunState::freezing:
        case RunState::stopping:
            return;  // start_if_wanted() and sandbox_frozen() go on from there
    }
}

/// A start or thaw that was begun for leases alone is now for the conversation, too.
void Machine::take_over_start() {
    if (!std::exchange(borrowed_, false))
        return;
    status_ = Status::starting;
    reason_ = PauseReason::none;
}

/// Turns a generation that is up and borrowed into the conversation's.
void Machine::become_active(Actions& out) {
    borrowed_ = false;
    start_again_ = false;
    status_ = Status::active;
    reason_ = PauseReason::none;
    leases_.disarm_grace(out);
    const bool was_warm = std::exchange(in_log_, true);
    out.emplace_back(action::LogSandboxResumed{was_warm ? PauseMode::warm : PauseMode::cold});
    out.emplace_back(action::Persist{});
    leases_.grant(out);
    use_agent(out);
}

/// The generation is up and the conversation's: this starts what a resume or a turn waits for, or answers.
void Machine::use_agent(Actions& out) {
    const bool needed = agent_wanted_ || turn_ == Turn::waiting;
    if (needed && agent_ == Agent::none) {
        agent_ = Agent::starting;
        out.emplace_back(action::StartAgent{});
    }
    if (needed && agent_ == Agent::starting)
        return;
    agent_wanted_ = false;
    out.emplace_back(action::AnswerStarted{});
    if (turn_ == Turn::waiting) {
        turn_ = Turn::running;
        out.emplace_back(action::SendQuery{});
    }
}

Actions Machine::sandbox_started() {
    Actions out;
    if (status_ == Status::ended || run_state_ != RunState::starting)
        return out;
    run_state_ = RunState::up;
    agent_ = agent_start_ == AgentStart::at_once ? Agent::up : Agent::none;
    if (borrowed_) {
        out.emplace_back(action::Persist{});
        leases_.grant(out);
        arm_lease_grace(out);
        return out;
    }
    if (std::exchange(created_, true)) {
        become_active(out);
        return out;
    }
    status_ = Status::active;
    reason_ = PauseReason::none;
    in_log_ = true;
    out.emplace_back(action::LogSessionStart{});
    out.emplace_back(action::LogSandboxReady{});
    out.emplace_back(action::Persist{});
    use_agent(out);
    return out;
}

Actions Machine::sandbox_start_failed(std::string detail, std::string code) {
    Actions out;
    if (status_ == Status::ended || (run_state_ != RunState::starting && run_state_ != RunState::stopping))
        return out;
    const bool planned = run_state_ == RunState::stopping;
    run_state_ = RunState::absent;
    if (!created_) {
        status_ = Status::ended;
        out.emplace_back(action::Discard{std::move(code), std::move(detail)});
        return out;
    }
    if (planned) {
        // The pause has answered the resumes before it; a resume after it waits for the next generation.
        if (borrowed_)
            end_borrowed(out);
        else
            enter_paused(out, planned_, planned_text_);
        return out;
    }
    agent_wanted_ = false;
    out.emplace_back(action::AnswerStarted{code, detail});
    leases_.end(out, {action::LeaseScope::all, "sandbox_failed", detail});
    if (std::exchange(borrowed_, false))
        return out;
    fail_turn(out, std::move(code), detail);
    status_ = Status::error;
    reason_ = PauseReason::none;
    out.emplace_back(
        action::LogSandboxTerminated{exit_of(sandbox::ExitClass::setup_failed, std::move(detail))});
    out.emplace_back(action::Persist{});
    return out;
}

void Machine::enter_paused(Actions& out, PauseReason reason, std::string text) {
    status_ = Status::paused;
    reason_ = reason;
    planned_ = PauseReason::none;
    planned_text_.clear();
    out.emplace_back(action::LogSandboxPaused{reason, PauseMode::cold, std::move(text)});
    out.emplace_back(action::Persist{});
    out.emplace_back(action::AnswerPaused{});
    start_if_wanted(out);
}

/// Handles the end of a generation that the log knows nothing of.
void Machine::end_borrowed(Actions& out) {
    borrowed_ = false;
    planned_ = PauseReason::none;
    planned_text_.clear();
    out.emplace_back(action::AnswerPaused{});
    start_if_wanted(out);
}

/// Starts a generation for requests that came while the old one was going down.
void Machine::start_if_wanted(Actions& out) {
    if (wants_active())
        begin_start(out);
    else if (leases_.is_any_wanted())
        begin_borrowed_start(out);
}

Actions Machine::sandbox_ending(const sandbox::Exit& exit) {
    Actions out;
    const bool is_there =
        run_state_ == RunState::up || run_state_ == RunState::freezing || run_state_ == RunState::frozen;
    if (is_there && turn_ == Turn::none) {
        run_state_ = RunState::stopping;
        agent_ = Agent::none;
        planned_ = PauseReason::none;
        planned_text_.clear();
        // While the cause is still to come, the holders wait for it.
        if (!exit.detail.empty())
            leases_.end(out, {action::LeaseScope::held, error_code_of(exit.exit_class), exit.detail});
        leases_.disarm_grace(out);
    }
    return out;
}

Actions Machine::sandbox_exited(const sandbox::Exit& exit) {
    Actions out;
    if (status_ == Status::ended || run_state_ == RunState::absent || run_state_ == RunState::starting)
        return out;
    const bool was_planned = run_state_ == RunState::stopping;
    run_state_ = RunState::absent;
    agent_ = Agent::none;
    exit_ = exit;
    if (!was_planned)
        planned_ = PauseReason::none;
    leases_.disarm_grace(out);
    leases_.end(out, {action::LeaseScope::held, error_code_of(exit.exit_class), exit.detail});
    // A resume waited for an agent in it. A resume that came later waits for the next generation.
    if (agent_wanted_ && !start_again_) {
        agent_wanted_ = false;
        out.emplace_back(action::AnswerStarted{"sandbox_failed", exit.detail});
    }
    if (broken_)
        fail_turn_by_exit(out, broken_->reported);
    if (turn_running()) {
        // Output that the agent wrote before it died is still in the stream, which now comes to its end.
        exit_pending_ = true;
        run_state_ = RunState::stopping;
        out.emplace_back(action::ArmGrace{});
        return out;
    }
    settle_exit(out);
    return out;
}

void Machine::settle_exit(Actions& out) {
    exit_pending_ = false;
    run_state_ = RunState::absent;
    if (is_unlogged())
        return end_borrowed(out);
    borrowed_ = false;
    in_log_ = false;
    out.emplace_back(action::LogSandboxTerminated{exit_});
    // The end of the agent was the first sign of another end.
    if (planned_ == PauseReason::crash && !sandbox::is_own_doing(exit_.exit_class))
        planned_ = PauseReason::none;
    if (planned_ != PauseReason::none) {
        const auto text = planned_text_;
        enter_paused(out, planned_, text);
    } else {
        enter_paused(out, pause_reason_of(exit_.exit_class), exit_.detail);
    }
}

Actions Machine::agent_started() {
    Actions out;
    if (agent_ != Agent::starting)
        return out;
    agent_ = Agent::up;
    use_agent(out);
    return out;
}

Actions Machine::agent_start_failed(std::string code, std::string detail) {
    Actions out;
    if (agent_ != Agent::starting)
        return out;
    agent_ = Agent::none;
    agent_wanted_ = false;
    out.emplace_back(action::AnswerStarted{code, detail});
    fail_turn(out, std::move(code), std::move(detail));
    return out;
}

Actions Machine::agent_exited(std::string detail) {
    // If this is the agent of a warm sandbox that is being taken over, the conversation starts another one
    // when it needs it.
    if (run_state_ == RunState::starting && !created_)
        agent_start_ = AgentStart::on_demand;
    const bool is_there =
        run_state_ == RunState::up || run_state_ == RunState::freezing || run_state_ == RunState::frozen;
    if (!is_there || !agent_gone_.empty())
        return {};
    // The end of a starting agent: its two messages came by two connections, the second one first.
    if (agent_ == Agent::starting)
        return agent_start_failed("agent_failed", std::move(detail));
    Actions out;
    if (agent_ == Agent::none)
        return out;
    if (broken_) {
        const Reported reported = broken_->reported;
        fail_turn(out, "agent_crashed", detail.empty() ? "the agent ended" : detail, reported);
    }
    if (turn_running()) {
        agent_gone_ = detail.empty() ? "the agent ended" : std::move(detail);
        out.emplace_back(action::ArmGrace{});
        return out;
    }
    lose_agent(out, detail);
    return out;
}

/// The agent has ended, and so has its turn. Processes that others use stay.
void Machine::lose_agent(Actions& out, const std::string& detail) {
    agent_ = Agent::none;
    const bool is_shared = run_state_ == RunState::up && leases_.is_any_held();
    if (!borrowed_ && !is_shared)
        begin_stop(out, PauseReason::crash, "the agent ended: " + detail, sandbox::ExitClass::killed);
}

void Machine::fail_turn(Actions& out, std::string code, std::string text, Reported reported) {
    if (turn_ == Turn::none)
        return;
    const bool had_query = turn_running();
    turn_ = Turn::none;
    agent_gone_.clear();
    broken_.reset();
    out.emplace_back(action::DisarmGrace{});
    if (had_query)
        out.emplace_back(action::DropQuery{});
    if (reported == Reported::no)
        out.emplace_back(action::LogTurnError{std::move(code), std::move(text)});
    out.emplace_back(action::LogTurnDone{});
    out.emplace_back(action::CloseTurn{});
}

/// Ends the turn with the error of the sandbox's end. An error that the agent reported does not tell of a
/// limit.
void Machine::fail_turn_by_exit(Actions& out, Reported reported) {
    const bool is_limit = sandbox::is_limit(exit_.exit_class);
    fail_turn(out, error_code_of(exit_.exit_class), exit_.detail, is_limit ? Reported::no : reported);
}

Actions Machine::open_turn() {
    assert(can_open_turn());
    Actions out;
    if (run_state_ == RunState::up && !borrowed_ && agent_ == Agent::up) {
        turn_ = Turn::running;
        out.emplace_back(action::SendQuery{});
        return out;
    }
    turn_ = Turn::waiting;
    activate(out);
    return out;
}

Actions Machine::turn_done() {
    Actions out;
    if (!turn_running())
        return out;
    turn_ = Turn::none;
    out.emplace_back(action::DisarmGrace{});
    out.emplace_back(action::CloseTurn{});
    const std::string gone = std::exchange(agent_gone_, {});
    if (exit_pending_)
        settle_exit(out);
    else if (!gone.empty())
        lose_agent(out, gone);
    return out;
}

Actions Machine::query_failed(std::string code, std::string text, Reported reported) {
    Actions out;
    if (!turn_running())
        return out;
    const std::string gone = std::exchange(agent_gone_, {});
    if (exit_pending_) {
        fail_turn_by_exit(out, reported);
        settle_exit(out);
        return out;
    }
    if (!gone.empty()) {
        fail_turn(out, "agent_crashed", gone, reported);
        lose_agent(out, gone);
        return out;
    }
    fail_turn(out, std::move(code), std::move(text), reported);
    return out;
}

Actions Machine::query_broke(std::string code, std::string text, Reported reported) {
    if (!turn_running() || exit_pending_ || !agent_gone_.empty())
        return query_failed(std::move(code), std::move(text), reported);
    broken_ = BrokenQuery{std::move(code), std::move(text), reported};
    return {action::ArmGrace{base::k_end_cause_wait}};
}

Actions Machine::interrupt() {
    Actions out;
    if (turn_ == Turn::waiting) {
        // The turn ends as one that an agent has.
        out.emplace_back(action::LogTurnInterrupted{});
        fail_turn(out, {}, {}, Reported::yes);
        return out;
    }
    if (turn_ != Turn::running)
        return out;
    turn_ = Turn::interrupting;
    // If the sandbox or the agent is gone, the stream is coming to its end, or is there: its grace runs.
    if (exit_pending_ || !agent_gone_.empty() || broken_)
        return out;
    out.emplace_back(action::SendInterrupt{});
    out.emplace_back(action::ArmGrace{});
    return out;
}

Actions Machine::turn_timed_out() {
    Actions out;
    if (turn_ == Turn::waiting || turn_ == Turn::running) {
        out.emplace_back(
            action::LogTurnError{"turn_timeout", "the turn took longer than this server allows"});
        for (Action& action : interrupt())
            out.push_back(std::move(action));
    }
    return out;
}

Actions Machine::grace_passed() {
    Actions out;
    if (!turn_running())
        return out;
    if (exit_pending_ || !agent_gone_.empty())
        return query_failed("sandbox_crashed", "the agent's stream did not end", Reported::no);
    if (broken_) {
        BrokenQuery broken = std::move(*broken_);
        return query_failed(std::move(broken.code), std::move(broken.text), broken.reported);
    }
    if (turn_ != Turn::interrupting)
        return out;
    fail_turn(out, "interrupt_ignored",
              "the agent did not end the turn after an interrupt; its sandbox was stopped");
    begin_stop(out, PauseReason::crash, "the agent ignored an interrupt", sandbox::ExitClass::killed);
    return out;
}

Actions Machine::pause(PauseReason reason, std::string code, std::string text) {
    Actions out;
    if (status_ == Status::ended)
        return out;
    start_again_ = false;
    agent_wanted_ = false;
    out.emplace_back(action::AnswerStarted{code, text});
    leases_.end(out, {action::LeaseScope::all, code, text});
    fail_turn(out, std::move(code), text);
    if (exit_pending_) {
        planned_ = reason;
        planned_text_ = std::move(text);
        settle_exit(out);
    } else if (run_state_ == RunState::absent) {
        if (status_ == Status::error)
            enter_paused(out, reason, std::move(text));
        else
            out.emplace_back(action::AnswerPaused{});
    } else {
        // Only a client that asks for a pause clears the error. Other pauses leave it to be seen.
        if (is_unlogged() && status_ == Status::error && reason == PauseReason::user) {
            status_ = Status::paused;
            reason_ = reason;
            out.emplace_back(action::LogSandboxPaused{reason, PauseMode::cold, text});
            out.emplace_back(action::Persist{});
        }
        const bool is_own_end = reason != PauseReason::evicted && reason != PauseReason::crash;
        begin_stop(out, reason, std::move(text),
                   is_own_end ? sandbox::ExitClass::stopped : sandbox::ExitClass::killed);
    }
    return out;
}

Actions Machine::freeze(PauseReason reason, std::string text) {
    assert(turn_ == Turn::none || run_state_ != RunState::up);
    if (run_state_ == RunState::frozen)
        return {action::AnswerPaused{}};
    const bool is_paused = borrowed_ && status_ == Status::paused && run_state_ != RunState::stopping;
    const bool can_freeze =
        (run_state_ == RunState::up && status_ == Status::active) || run_state_ == RunState::freezing;
    if (!is_paused && (!can_freeze || agent_ == Agent::starting))
        return pause(reason, "paused", std::move(text));
    Actions out;
    start_again_ = false;
    agent_wanted_ = false;
    out.emplace_back(action::AnswerStarted{"paused", text});
    if (run_state_ == RunState::freezing)
        leases_.end(out, {action::LeaseScope::waiting, "paused", text});
    if (is_paused)
        out.emplace_back(action::AnswerPaused{});
    if (is_paused || run_state_ == RunState::freezing)
        return out;
    if (is_in_use()) {
        // The sandbox is frozen when the last request has ended.
        borrowed_ = true;
        enter_warm_pause(out, reason, std::move(text));
        return out;
    }
    planned_ = reason;
    planned_text_ = std::move(text);
    run_state_ = RunState::freezing;
    out.emplace_back(action::FreezeSandbox{});
    return out;
}

void Machine::enter_warm_pause(Actions& out, PauseReason reason, std::string text) {
    status_ = Status::paused;
    reason_ = reason;
    out.emplace_back(action::LogSandboxPaused{reason, PauseMode::warm, std::move(text)});
    out.emplace_back(action::Persist{});
    out.emplace_back(action::AnswerPaused{});
}

Actions Machine::sandbox_frozen() {
    Actions out;
    if (status_ == Status::ended || run_state_ != RunState::freezing)
        return out;
    run_state_ = RunState::frozen;
    const PauseReason reason = std::exchange(planned_, PauseReason::none);
    // A sandbox that was thawed for leases goes back to the state that the log has already.
    if (!std::exchange(borrowed_, false))
        enter_warm_pause(out, reason, std::exchange(planned_text_, {}));
    // Requests may have come while it was being frozen.
    if (wants_active())
        begin_thaw(out);
    else if (leases_.is_any_wanted())
        begin_borrowed_thaw(out);
    return out;
}

Actions Machine::sandbox_freeze_failed() {
    Actions out;
    if (run_state_ == RunState::freezing)
        begin_stop(out, planned_, planned_text_, sandbox::ExitClass::stopped);
    return out;
}

Actions Machine::resume() {
    Actions out;
    if (status_ == Status::ended)
        return out;
    agent_wanted_ = true;
    start_again_ = run_state_ == RunState::freezing || run_state_ == RunState::stopping;
    activate(out);
    return out;
}

Actions Machine::end(std::string code, std::string text) {
    Actions out;
    if (status_ == Status::ended)
        return out;
    // The other ends are deletions, which nobody sees.
    reason_ = code == "conversation_ended" ? PauseReason::ttl : PauseReason::none;
    leases_.end(out, {action::LeaseScope::all, "conversation_ended", text});
    fail_turn(out, std::move(code), text);
    if (run_state_ != RunState::absent && !is_unlogged())
        out.emplace_back(action::LogSandboxTerminated{exit_of(sandbox::ExitClass::stopped, text)});
    status_ = Status::ended;
    exit_pending_ = false;
    borrowed_ = false;
    run_state_ = RunState::absent;
    leases_.disarm_grace(out);
    out.emplace_back(action::AnswerStarted{"conversation_ended", text});
    out.emplace_back(action::AnswerPaused{});
    if (created_)
        out.emplace_back(action::Persist{});
    out.emplace_back(action::RemoveSandbox{});
    return out;
}

Actions Machine::removed() {
    return status_ == Status::ended && created_ ? Actions{action::Persist{}} : Actions{};
}

}  // namespace atl::conversation
