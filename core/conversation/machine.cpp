#include "core/conversation/machine.hpp"

#include <cassert>
#include <utility>

namespace atl::conversation {
namespace {

using Kind = Action::Kind;

void add(Actions& out, Kind kind) {
    out.push_back(Action{kind, {}, {}, PauseReason::none, {}, PauseMode::cold});
}

void add_text(Actions& out, Kind kind, std::string code, std::string text) {
    out.push_back(Action{kind, std::move(code), std::move(text), PauseReason::none, {}, PauseMode::cold});
}

PauseReason reason_of(sandbox::ExitClass exit_class) {
    switch (exit_class) {
        case sandbox::ExitClass::oom:
            return PauseReason::oom;
        case sandbox::ExitClass::disk_limit:
            return PauseReason::disk;
        default:
            return PauseReason::crash;
    }
}

}  // namespace

std::string error_code_of(sandbox::ExitClass exit_class) {
    switch (exit_class) {
        case sandbox::ExitClass::oom:
            return "oom";
        case sandbox::ExitClass::disk_limit:
            return "disk_limit";
        default:
            return "sandbox_crashed";
    }
}

void Machine::restore(Status status, PauseReason reason) {
    status_ = status;
    reason_ = reason;
    created_ = true;
}

Actions Machine::create() {
    Actions out;
    begin_start(out);
    return out;
}

void Machine::begin_start(Actions& out) {
    box_ = Box::starting;
    status_ = Status::starting;
    reason_ = PauseReason::none;
    add(out, Kind::start_sandbox);
}

void Machine::begin_stop(Actions& out, PauseReason reason, std::string text) {
    planned_ = reason;
    planned_text_ = text;
    if (box_ == Box::stopping)
        return;
    box_ = Box::stopping;
    add_text(out, Kind::stop_sandbox, {}, std::move(text));
}

void Machine::fail_turn(Actions& out, std::string code, std::string text, Reported reported) {
    if (turn_ == Turn::none)
        return;
    const bool had_query = turn_running();
    turn_ = Turn::none;
    agent_gone_.clear();
    add(out, Kind::disarm_grace);
    if (had_query)
        add(out, Kind::drop_query);
    if (reported == Reported::no)
        add_text(out, Kind::log_turn_error, std::move(code), std::move(text));
    add(out, Kind::log_turn_done);
    add(out, Kind::close_turn);
}

Actions Machine::sandbox_started() {
    Actions out;
    if (status_ == Status::ended || box_ != Box::starting)
        return out;
    box_ = Box::up;
    status_ = Status::active;
    reason_ = PauseReason::none;
    if (std::exchange(created_, true)) {
        add(out, Kind::log_sandbox_resumed);
    } else {
        add(out, Kind::log_session_start);
        add(out, Kind::log_sandbox_ready);
    }
    add(out, Kind::persist);
    add(out, Kind::answer_started);
    if (turn_ == Turn::waiting) {
        turn_ = Turn::running;
        add(out, Kind::send_query);
    }
    return out;
}

Actions Machine::sandbox_start_failed(std::string detail) {
    Actions out;
    if (status_ == Status::ended || (box_ != Box::starting && box_ != Box::stopping))
        return out;
    const bool planned = box_ == Box::stopping;
    box_ = Box::absent;
    if (!created_) {
        status_ = Status::ended;
        add_text(out, Kind::discard, {}, std::move(detail));
        return out;
    }
    add_text(out, Kind::answer_started, "sandbox_failed", detail);
    if (planned) {
        enter_paused(out, planned_, planned_text_);
        return out;
    }
    fail_turn(out, "sandbox_failed", detail);
    status_ = Status::error;
    reason_ = PauseReason::none;
    sandbox::Exit exit;
    exit.exit_class = sandbox::ExitClass::setup_failed;
    exit.detail = std::move(detail);
    out.push_back(
        Action{Kind::log_sandbox_terminated, {}, {}, PauseReason::none, std::move(exit), PauseMode::cold});
    add(out, Kind::persist);
    return out;
}

void Machine::enter_paused(Actions& out, PauseReason reason, std::string text) {
    status_ = Status::paused;
    reason_ = reason;
    planned_ = PauseReason::none;
    planned_text_.clear();
    out.push_back(Action{Kind::log_sandbox_paused, {}, std::move(text), reason, {}, PauseMode::cold});
    add(out, Kind::persist);
    add(out, Kind::answer_paused);
    // A message or a resume that came while the old generation was going down.
    if (std::exchange(start_again_, false) || turn_ == Turn::waiting)
        begin_start(out);
}

Actions Machine::sandbox_ending() {
    const bool is_there = box_ == Box::up || box_ == Box::freezing || box_ == Box::frozen;
    if (is_there && turn_ == Turn::none) {
        box_ = Box::stopping;
        planned_ = PauseReason::none;
        planned_text_.clear();
    }
    return {};
}

Actions Machine::sandbox_exited(const sandbox::Exit& exit) {
    Actions out;
    if (status_ == Status::ended || box_ == Box::absent || box_ == Box::starting)
        return out;
    const bool was_planned = box_ == Box::stopping;
    box_ = Box::absent;
    exit_ = exit;
    if (!was_planned)
        planned_ = PauseReason::none;
    if (turn_running()) {
        // What it wrote before it died is still in the stream, which now comes to its end.
        exit_pending_ = true;
        box_ = Box::stopping;
        add(out, Kind::arm_grace);
        return out;
    }
    settle_exit(out);
    return out;
}

void Machine::settle_exit(Actions& out) {
    exit_pending_ = false;
    box_ = Box::absent;
    out.push_back(Action{Kind::log_sandbox_terminated, {}, {}, PauseReason::none, exit_, PauseMode::cold});
    if (planned_ != PauseReason::none) {
        const auto text = planned_text_;
        enter_paused(out, planned_, text);
    } else {
        enter_paused(out, reason_of(exit_.exit_class), exit_.detail);
    }
}

Actions Machine::agent_exited(std::string detail) {
    Actions out;
    const bool is_there = box_ == Box::up || box_ == Box::freezing || box_ == Box::frozen;
    if (!is_there || !agent_gone_.empty())
        return out;
    if (turn_running()) {
        agent_gone_ = detail.empty() ? "the agent ended" : std::move(detail);
        add(out, Kind::arm_grace);
        return out;
    }
    begin_stop(out, PauseReason::crash, "the agent ended: " + detail);
    return out;
}

bool Machine::can_open_turn() const noexcept {
    return created_ && status_ != Status::ended && turn_ == Turn::none;
}

Actions Machine::open_turn() {
    assert(can_open_turn());
    Actions out;
    if (box_ == Box::up) {
        turn_ = Turn::running;
        add(out, Kind::send_query);
        return out;
    }
    turn_ = Turn::waiting;
    if (box_ == Box::absent)
        begin_start(out);
    else if (box_ == Box::frozen)
        begin_thaw(out);
    return out;
}

Actions Machine::turn_done() {
    Actions out;
    if (!turn_running())
        return out;
    turn_ = Turn::none;
    add(out, Kind::disarm_grace);
    add(out, Kind::close_turn);
    const std::string gone = std::exchange(agent_gone_, {});
    if (exit_pending_)
        settle_exit(out);
    else if (!gone.empty())
        begin_stop(out, PauseReason::crash, "the agent ended: " + gone);
    return out;
}

Actions Machine::query_failed(std::string code, std::string text, Reported reported) {
    Actions out;
    if (!turn_running())
        return out;
    const std::string gone = std::exchange(agent_gone_, {});
    if (exit_pending_) {
        fail_turn(out, error_code_of(exit_.exit_class), exit_.detail, reported);
        settle_exit(out);
        return out;
    }
    if (!gone.empty()) {
        fail_turn(out, "agent_crashed", gone, reported);
        begin_stop(out, PauseReason::crash, "the agent ended: " + gone);
        return out;
    }
    fail_turn(out, std::move(code), std::move(text), reported);
    return out;
}

Actions Machine::interrupt() {
    Actions out;
    if (turn_ == Turn::waiting) {
        fail_turn(out, "interrupted", "the turn was interrupted before it began");
        return out;
    }
    if (turn_ != Turn::running)
        return out;
    turn_ = Turn::interrupting;
    // With the sandbox or the agent already gone the stream is coming to its end: its grace runs.
    if (exit_pending_ || !agent_gone_.empty())
        return out;
    add(out, Kind::send_interrupt);
    add(out, Kind::arm_grace);
    return out;
}

Actions Machine::turn_timed_out() {
    Actions out;
    if (turn_ == Turn::waiting || turn_ == Turn::running) {
        add_text(out, Kind::log_turn_error, "turn_timeout", "the turn took longer than this server allows");
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
    if (turn_ != Turn::interrupting)
        return out;
    fail_turn(out, "interrupt_ignored",
              "the agent did not end the turn after an interrupt; its sandbox was stopped");
    begin_stop(out, PauseReason::crash, "the agent ignored an interrupt");
    return out;
}

Actions Machine::pause(PauseReason reason, std::string code, std::string text) {
    Actions out;
    if (status_ == Status::ended)
        return out;
    start_again_ = false;
    add_text(out, Kind::answer_started, "paused", text);
    fail_turn(out, std::move(code), text);
    if (exit_pending_) {
        planned_ = reason;
        planned_text_ = std::move(text);
        settle_exit(out);
    } else if (box_ == Box::absent) {
        if (status_ == Status::error)
            enter_paused(out, reason, std::move(text));
        else
            add(out, Kind::answer_paused);
    } else {
        begin_stop(out, reason, std::move(text));
    }
    return out;
}

Actions Machine::freeze(PauseReason reason, std::string text) {
    assert(turn_ == Turn::none || box_ != Box::up);
    if (status_ == Status::ended || (box_ != Box::up && box_ != Box::freezing && box_ != Box::frozen))
        return pause(reason, "paused", std::move(text));
    Actions out;
    if (box_ == Box::frozen) {
        add(out, Kind::answer_paused);
        return out;
    }
    start_again_ = false;
    add_text(out, Kind::answer_started, "paused", text);
    if (box_ == Box::freezing)
        return out;
    planned_ = reason;
    planned_text_ = std::move(text);
    box_ = Box::freezing;
    add(out, Kind::freeze_sandbox);
    return out;
}

Actions Machine::sandbox_frozen() {
    Actions out;
    if (status_ == Status::ended || box_ != Box::freezing)
        return out;
    box_ = Box::frozen;
    status_ = Status::paused;
    reason_ = std::exchange(planned_, PauseReason::none);
    add_text(out, Kind::log_sandbox_paused, {}, std::exchange(planned_text_, {}));
    out.back().reason = reason_;
    out.back().mode = PauseMode::warm;
    add(out, Kind::persist);
    add(out, Kind::answer_paused);
    // A message or a resume that came while it was being frozen.
    if (std::exchange(start_again_, false) || turn_ == Turn::waiting)
        begin_thaw(out);
    return out;
}

Actions Machine::sandbox_freeze_failed() {
    Actions out;
    if (status_ != Status::ended && box_ == Box::freezing)
        begin_stop(out, planned_, planned_text_);
    return out;
}

void Machine::begin_thaw(Actions& out) {
    box_ = Box::up;
    status_ = Status::active;
    reason_ = PauseReason::none;
    add(out, Kind::thaw_sandbox);
    add(out, Kind::log_sandbox_resumed);
    out.back().mode = PauseMode::warm;
    add(out, Kind::persist);
    add(out, Kind::answer_started);
    if (turn_ == Turn::waiting) {
        turn_ = Turn::running;
        add(out, Kind::send_query);
    }
}

Actions Machine::resume() {
    Actions out;
    if (status_ == Status::ended)
        return out;
    if (box_ == Box::absent)
        begin_start(out);
    else if (box_ == Box::up)
        add(out, Kind::answer_started);
    else if (box_ == Box::frozen)
        begin_thaw(out);
    else if (box_ == Box::stopping || box_ == Box::freezing)
        start_again_ = true;
    return out;
}

Actions Machine::end(std::string code, std::string text) {
    Actions out;
    if (status_ == Status::ended)
        return out;
    fail_turn(out, std::move(code), text);
    if (box_ != Box::absent) {
        sandbox::Exit exit;
        exit.exit_class = sandbox::ExitClass::killed;
        exit.detail = text;
        out.push_back(Action{
            Kind::log_sandbox_terminated, {}, {}, PauseReason::none, std::move(exit), PauseMode::cold});
    }
    status_ = Status::ended;
    reason_ = PauseReason::none;
    exit_pending_ = false;
    box_ = Box::absent;
    add_text(out, Kind::answer_started, "conversation_ended", text);
    add(out, Kind::answer_paused);
    if (created_)
        add(out, Kind::persist);
    add(out, Kind::remove_sandbox);
    return out;
}

Actions Machine::removed() {
    Actions out;
    if (status_ == Status::ended && created_)
        add(out, Kind::persist);
    return out;
}

}  // namespace atl::conversation
