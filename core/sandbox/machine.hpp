// The life of one generation of a sandbox as a pure state machine: no I/O, no clock. Each input is an event
// and returns a step: the next actions. Every input is valid in every phase; a late input is ignored. The
// phase `dead` is final.
//
//     launching -> ready -> asking -> terminating -> killing -> dead
//                  ready <-> freezing -> frozen -> ready
//                  ready -> leaving -> killing
//
// Any phase may go to dead when the processes are gone, and `killing` gives up after its deadline (lost): the
// processes are then still there, has_given_up() says so, and UnkillableList (unkillable_list.hpp) goes on
// killing them.
#pragma once

#include <string>

#include "core/base/clock.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

/// The actions of the manager after an input, in this order.
struct MachineStep {
    bool thaw = false;          // first: thaw it
    bool freeze = false;        // then call frozen() or freeze_failed()
    bool ask_shutdown = false;  // over the bridge
    bool terminate = false;     // SIGTERM
    bool kill = false;          // SIGKILL, the whole group
    bool report_ready = false;
    bool report_frozen = false;
    bool clean_up = false;     // it is dead: release its resources, then report
    bool disarm = false;       // the deadline is no longer wanted
    base::Millis deadline{0};  // above zero: call deadline_passed() after this time
};

class GenerationMachine {
  public:
    enum class Phase : std::uint8_t {
        launching,
        ready,
        freezing,
        frozen,
        leaving,  // its guest has broken the control stream: its exit is to tell why
        asking,
        terminating,
        killing,
        dead
    };

    Phase phase() const noexcept { return phase_; }
    bool was_ready() const noexcept { return was_ready_; }
    /// True if it is dead here while processes of it may be left.
    bool has_given_up() const noexcept { return has_given_up_; }
    /// How it ended; but for the code, how it is being ended once that is known.
    const Exit& exit() const noexcept { return exit_; }

    /// The guest said it is ready.
    MachineStep channel_ready();
    /// The guest never got ready, for this reason.
    MachineStep channel_failed(std::string detail);
    /// The control stream of a generation that was ready has broken: its processes are gone, or about to go.
    /// It is killed, for `detail`, only if they are not.
    MachineStep channel_lost(std::string detail);
    /// It could not even be spawned.
    MachineStep launch_failed(std::string detail);
    /// Freezes it, if it is ready.
    MachineStep freeze();
    /// All its processes are frozen.
    MachineStep frozen();
    /// The freeze failed, and the processes go on.
    MachineStep freeze_failed();
    /// Thaws it, if it is frozen or freezing.
    MachineStep thaw();
    /// Ends it: in order if it is ready or frozen, by force otherwise. The first reason stays, unless it dies
    /// of something else before that end.
    MachineStep stop(ExitClass why, std::string detail);
    /// Kills it now; `why` becomes its exit, except for the code.
    MachineStep kill(Exit why);
    /// No process of it is left.
    MachineStep process_exited(const Exit& exit);
    MachineStep deadline_passed();
    /// The exit of a generation that still has processes.
    static Exit lost_exit();

  private:
    MachineStep enter_killing();
    void settle_reason(Exit why);
    bool died_before(const Exit& exit) const noexcept;

    Phase phase_ = Phase::launching;
    bool was_ready_ = false;
    bool has_given_up_ = false;
    bool reason_set_ = false;
    std::string lost_detail_;  // of channel_lost()
    Exit exit_;
};

}  // namespace atl::sandbox
