// A conversation's life as a pure state machine: no I/O, no clock, no text but reasons. Inputs are what
// happened; each returns the actions to perform, in order. Inputs that come too late are ignored.
//
//     starting -> active <-> paused -> ended, and error (its sandbox could not be started; a message tries
//     again)
//
// Invariants: at most one turn is open; an opened turn is closed exactly once, by the agent's `done` or by
// fail_turn (an `error`, then a `done`); a query is only sent while the sandbox is up; after `ended` nothing
// but the end of the removal happens.
#pragma once

#include <string>
#include <vector>

#include "core/conversation/types.hpp"
#include "core/sandbox/types.hpp"

namespace atl::conversation {

struct Action {
    enum class Kind : std::uint8_t {
        log_session_start,
        log_sandbox_ready,
        log_sandbox_resumed,     // mode: of the pause
        log_sandbox_paused,      // reason, mode, text
        log_sandbox_terminated,  // exit
        log_turn_error,          // code, text
        log_turn_done,
        close_turn,  // persist it: it is over
        start_sandbox,
        stop_sandbox,    // text
        freeze_sandbox,  // then call sandbox_frozen() or sandbox_freeze_failed()
        thaw_sandbox,
        remove_sandbox,  // with its workspace
        send_query,
        drop_query,
        send_interrupt,
        arm_grace,  // call grace_passed() after the interrupt deadline
        disarm_grace,
        persist,         // status or reason changed
        answer_started,  // to who waits for a start: success, or `code` sandbox_failed with text
        answer_paused,
        discard,  // it never came to life: forget it and answer who created it with text
    };
    Kind kind;
    std::string code;
    std::string text;
    PauseReason reason = PauseReason::none;
    sandbox::Exit exit;
    PauseMode mode = PauseMode::cold;
};

using Actions = std::vector<Action>;

/// Of the error that a turn ends with when its sandbox ended so.
std::string error_code_of(sandbox::ExitClass exit_class);

class Machine {
  public:
    /// What a started server finds in its store.
    void restore(Status status, PauseReason reason);

    Actions create();
    Actions sandbox_started();
    Actions sandbox_start_failed(std::string detail);
    /// It will exit, for a reason of its own: no turn may begin in it.
    Actions sandbox_ending();
    Actions sandbox_exited(const sandbox::Exit& exit);
    Actions agent_exited(std::string detail);
    Actions sandbox_frozen();
    Actions sandbox_freeze_failed();

    /// Precondition: can_open_turn().
    Actions open_turn();
    bool can_open_turn() const noexcept;
    /// The agent's `done` has been logged.
    Actions turn_done();
    /// The stream ended without `done`. `reported`: the last event of the turn was an error already.
    enum class Reported : std::uint8_t { no, yes };
    Actions query_failed(std::string code, std::string text, Reported reported);
    Actions interrupt();
    Actions turn_timed_out();
    /// The agent did not end the turn, or the stream did not end, within the deadline.
    Actions grace_passed();

    /// An open turn ends first, with error `code`.
    Actions pause(PauseReason reason, std::string code, std::string text);
    /// A warm pause: the sandbox stays as it is, frozen. A cold one where it cannot be frozen, or is not up.
    /// Precondition: no turn is open.
    Actions freeze(PauseReason reason, std::string text);
    Actions resume();
    /// The end of the conversation; `removed()` when the sandbox and its workspace are gone.
    Actions end(std::string code, std::string text);
    Actions removed();

    Status status() const noexcept { return status_; }
    PauseReason reason() const noexcept { return reason_; }
    bool created() const noexcept { return created_; }
    bool turn_open() const noexcept { return turn_ != Turn::none; }
    /// True while the agent's events belong to the open turn.
    bool turn_running() const noexcept { return turn_ == Turn::running || turn_ == Turn::interrupting; }
    /// True from an interrupt to the end of the turn.
    bool interrupting() const noexcept { return turn_ == Turn::interrupting; }
    bool sandbox_up() const noexcept { return box_ == Box::up; }
    bool sandbox_is_frozen() const noexcept { return box_ == Box::frozen; }
    bool sandbox_living() const noexcept { return box_ != Box::absent; }

  private:
    enum class Turn : std::uint8_t { none, waiting, running, interrupting };
    enum class Box : std::uint8_t { absent, starting, up, freezing, frozen, stopping };

    void fail_turn(Actions& out, std::string code, std::string text, Reported reported = Reported::no);
    void begin_start(Actions& out);
    void begin_stop(Actions& out, PauseReason reason, std::string text);
    void begin_thaw(Actions& out);
    void settle_exit(Actions& out);
    void enter_paused(Actions& out, PauseReason reason, std::string text);

    Status status_ = Status::starting;
    PauseReason reason_ = PauseReason::none;
    Turn turn_ = Turn::none;
    Box box_ = Box::absent;
    bool created_ = false;
    PauseReason planned_ = PauseReason::none;  // why the sandbox is being stopped or frozen
    std::string planned_text_;
    std::string agent_gone_;     // not empty: the agent ended, its stream is still being read
    bool start_again_ = false;   // a resume came while the sandbox was being stopped or frozen
    bool exit_pending_ = false;  // the sandbox is gone, its stream is still being read
    sandbox::Exit exit_;
};

}  // namespace atl::conversation
