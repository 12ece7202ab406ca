// A conversation's life as a pure state machine: no I/O, no clock, no text but reasons. Inputs are what
// happened; each returns the actions to perform, in order. Inputs that come too late are ignored.
//
//     starting -> active <-> paused -> ended, and error (its sandbox could not be started; a message tries
//     again)
//
// Invariants: at most one turn is open; an opened turn is closed exactly once, by the agent's `done` or by
// fail_turn (an `error`, then a `done`); a query is only sent while the agent is up; a lease is granted only
// while the generation is up; after `ended` nothing but the end of the removal happens.
// Leases in every combination: the table in README.md.
#pragma once

#include <optional>
#include <string>

#include "core/conversation/actions.hpp"
#include "core/conversation/lease_ledger.hpp"

namespace atl::conversation {

class Machine {
  public:
    /// The state that a started server finds in its store.
    void restore(Status status, PauseReason reason);

    Actions create() {
        Actions out;
        begin_start(out);
        return out;
    }
    Actions sandbox_started();
    /// `code` is that of the error that a waiting turn ends with: agent_failed or sandbox_failed.
    Actions sandbox_start_failed(std::string detail, std::string code = "sandbox_failed");
    /// It will exit so, for a reason of its own: no turn may begin in it.
    Actions sandbox_ending(const sandbox::Exit& exit);
    Actions sandbox_exited(const sandbox::Exit& exit);
    Actions agent_started();
    /// `code` is that of the error that a waiting turn ends with.
    Actions agent_start_failed(std::string code, std::string detail);
    Actions agent_exited(std::string detail);
    Actions sandbox_frozen();
    Actions sandbox_freeze_failed();

    /// Precondition: can_open_turn().
    Actions open_turn();
    bool can_open_turn() const noexcept {
        return created_ && status_ != Status::ended && turn_ == Turn::none;
    }
    /// The agent's `done` has been logged.
    Actions turn_done();
    /// The stream ended without `done`. `reported`: the last event of the turn was an error already, which
    /// counts for less than a limit that the sandbox ended for.
    enum class Reported : std::uint8_t { no, yes };
    Actions query_failed(std::string code, std::string text, Reported reported);
    /// The stream broke, and nobody knows why: the end of the sandbox or of the agent may tell it a moment
    /// later.
    Actions query_broke(std::string code, std::string text, Reported reported);
    Actions interrupt();
    Actions turn_timed_out();
    /// The agent did not end the turn, or the stream did not end, within the deadline.
    Actions grace_passed();

    /// Pauses the conversation. An open turn ends first, with error `code`; so do all leases.
    Actions pause(PauseReason reason, std::string code, std::string text);
    /// Pauses it warm: the sandbox stays as it is, frozen. The pause is cold where the sandbox cannot be
    /// frozen, or is not up. Precondition: no turn is open.
    Actions freeze(PauseReason reason, std::string text);
    Actions resume();
    /// The end of the conversation; `removed()` when the sandbox and its workspace are gone. `code` is the
    /// turn's: "conversation_ended" where its time to live is over.
    Actions end(std::string code, std::string text);
    Actions removed();

    /// A request wants a lease: GrantLeases or EndLeases answers. Precondition: can_lease().
    Actions acquire_lease(LeaseUse use);
    bool can_lease() const noexcept { return created_ && status_ != Status::ended; }
    /// The holder is done with a lease that was granted and not ended.
    Actions release_lease(LeaseUse use);
    /// Nobody has held a lease on the borrowed generation for the whole grace.
    Actions lease_grace_passed();

    Status status() const noexcept { return status_; }
    PauseReason reason() const noexcept { return reason_; }
    bool created() const noexcept { return created_; }
    bool turn_open() const noexcept { return turn_ != Turn::none; }
    /// True while the agent's events belong to the open turn.
    bool turn_running() const noexcept { return turn_ == Turn::running || turn_ == Turn::interrupting; }
    /// True from an interrupt to the end of the turn.
    bool interrupting() const noexcept { return turn_ == Turn::interrupting; }
    bool sandbox_up() const noexcept { return run_state_ == RunState::up; }
    bool sandbox_is_frozen() const noexcept { return run_state_ == RunState::frozen; }
    bool sandbox_living() const noexcept { return run_state_ != RunState::absent; }
    /// True if it goes down: requests from now on get the next generation.
    bool sandbox_is_stopping() const noexcept { return run_state_ == RunState::stopping; }
    /// True while the generation is there for leases alone.
    bool is_borrowed() const noexcept { return borrowed_; }
    /// The end of the sandbox, while the stream of its turn is still being read; else null.
    const sandbox::Exit* pending_exit() const noexcept { return exit_pending_ ? &exit_ : nullptr; }
    /// True while a `request` lease is held or waits.
    bool is_in_use() const noexcept { return leases_.is_request_there(); }

  private:
    enum class Turn : std::uint8_t { none, waiting, running, interrupting };
    enum class RunState : std::uint8_t { absent, starting, up, freezing, frozen, stopping };
    enum class Agent : std::uint8_t { none, starting, up };

    struct BrokenQuery {
        std::string code;
        std::string text;
        Reported reported;
    };

    void fail_turn(Actions& out, std::string code, std::string text, Reported reported = Reported::no);
    void fail_turn_by_exit(Actions& out, Reported reported);
    void begin_start(Actions& out);
    void begin_borrowed_start(Actions& out);
    void begin_stop(Actions& out, PauseReason reason, std::string text, sandbox::ExitClass exit_class);
    void begin_thaw(Actions& out);
    void begin_borrowed_thaw(Actions& out);
    void activate(Actions& out);
    void become_active(Actions& out);
    void take_over_start();
    void use_agent(Actions& out);
    void arm_lease_grace(Actions& out);
    void lose_agent(Actions& out, const std::string& detail);
    void settle_exit(Actions& out);
    void end_borrowed(Actions& out);
    void enter_paused(Actions& out, PauseReason reason, std::string text);
    void enter_warm_pause(Actions& out, PauseReason reason, std::string text);
    void start_if_wanted(Actions& out);
    bool is_unlogged() const noexcept { return borrowed_ && !in_log_; }
    bool wants_active() const noexcept {
        return start_again_ || turn_ == Turn::waiting || leases_.is_process_wanted();
    }

    Status status_ = Status::starting;
    PauseReason reason_ = PauseReason::none;
    Turn turn_ = Turn::none;
    RunState run_state_ = RunState::absent;
    Agent agent_ = Agent::none;
    AgentStart agent_start_ = AgentStart::at_once;  // for the generation that is starting
    bool created_ = false;
    bool borrowed_ = false;
    bool in_log_ = false;  // the log says that this generation is there, or that it is frozen
    LeaseLedger leases_;
    PauseReason planned_ = PauseReason::none;  // why the sandbox is being stopped or frozen
    std::string planned_text_;
    std::string agent_gone_;             // not empty: the agent ended, its stream is still being read
    std::optional<BrokenQuery> broken_;  // the stream ended, and its cause is still to come
    bool start_again_ = false;           // a resume came while the sandbox was being stopped or frozen
    bool agent_wanted_ = false;          // a resume waits for the agent
    bool exit_pending_ = false;          // the sandbox is gone, its stream is still being read
    sandbox::Exit exit_;
};

}  // namespace atl::conversation
