#include "core/sandbox/machine.hpp"

#include <csignal>
#include <utility>

#include "core/base/limits.hpp"

namespace atl::sandbox {

void GenerationMachine::settle_reason(Exit why) {
    if (reason_set_)
        return;
    reason_set_ = true;
    exit_ = std::move(why);
}

MachineStep GenerationMachine::enter_killing() {
    phase_ = Phase::killing;
    MachineStep step;
    step.kill = true;
    step.deadline = base::k_kill_deadline;
    return step;
}

MachineStep GenerationMachine::channel_ready() {
    if (phase_ != Phase::launching)
        return {};
    phase_ = Phase::ready;
    was_ready_ = true;
    MachineStep step;
    step.report_ready = true;
    step.disarm = true;
    return step;
}

MachineStep GenerationMachine::channel_failed(std::string detail) {
    if (phase_ != Phase::launching)
        return {};
    return kill({ExitClass::setup_failed, 0, std::move(detail)});
}

MachineStep GenerationMachine::channel_lost(std::string detail) {
    if (phase_ != Phase::ready && phase_ != Phase::freezing && phase_ != Phase::frozen)
        return {};
    MachineStep step = thaw();
    lost_detail_ = std::move(detail);
    phase_ = Phase::leaving;
    step.deadline = base::k_shutdown_grace;
    return step;
}

MachineStep GenerationMachine::launch_failed(std::string detail) {
    if (phase_ == Phase::dead)
        return {};
    settle_reason({ExitClass::setup_failed, 0, std::move(detail)});
    phase_ = Phase::dead;
    MachineStep step;
    step.clean_up = true;
    step.disarm = true;
    return step;
}

MachineStep GenerationMachine::freeze() {
    if (phase_ != Phase::ready)
        return {};
    phase_ = Phase::freezing;
    MachineStep step;
    step.freeze = true;
    return step;
}

MachineStep GenerationMachine::frozen() {
    if (phase_ != Phase::freezing)
        return {};
    phase_ = Phase::frozen;
    MachineStep step;
    step.report_frozen = true;
    return step;
}

MachineStep GenerationMachine::freeze_failed() {
    if (phase_ == Phase::freezing)
        phase_ = Phase::ready;
    return {};
}

MachineStep GenerationMachine::thaw() {
    if (phase_ != Phase::freezing && phase_ != Phase::frozen)
        return {};
    phase_ = Phase::ready;
    MachineStep step;
    step.thaw = true;
    return step;
}

MachineStep GenerationMachine::stop(ExitClass why, std::string detail) {
    switch (phase_) {
        case Phase::launching:
            return kill({why, 0, std::move(detail)});
        case Phase::ready:
        case Phase::freezing:
        case Phase::frozen: {
            MachineStep step = thaw();
            settle_reason({why, 0, std::move(detail)});
            phase_ = Phase::asking;
            step.ask_shutdown = true;
            step.deadline = base::k_shutdown_grace;
            return step;
        }
        case Phase::leaving:
        case Phase::asking:
        case Phase::terminating:
        case Phase::killing:
        case Phase::dead:
            return {};
    }
    return {};
}

MachineStep GenerationMachine::kill(Exit why) {
    if (phase_ == Phase::killing || phase_ == Phase::dead)
        return {};
    settle_reason(std::move(why));
    return enter_killing();
}

/// True if it died of something else than the orderly end that the server had begun: a limit, or a signal
/// that the server had not sent by then.
bool GenerationMachine::died_before(const Exit& exit) const noexcept {
    if (phase_ != Phase::asking && phase_ != Phase::terminating)
        return false;
    const bool is_ours = phase_ == Phase::terminating && exit.code == SIGTERM;
    return is_limit(exit.exit_class) || (exit.exit_class == ExitClass::signalled && !is_ours);
}

MachineStep GenerationMachine::process_exited(const Exit& exit) {
    if (phase_ == Phase::dead)
        return {};
    if (!reason_set_ || died_before(exit)) {
        exit_ = exit;
        if (phase_ == Phase::launching)
            exit_.exit_class = ExitClass::setup_failed;
        reason_set_ = true;
    } else {
        exit_.code = exit.code;
        // bwrap's own account of a failed setup says more than "the guest was not ready".
        if (exit_.exit_class == ExitClass::setup_failed && exit.exit_class == ExitClass::setup_failed)
            exit_.detail = exit.detail;
    }
    phase_ = Phase::dead;
    MachineStep step;
    step.clean_up = true;
    step.disarm = true;
    return step;
}

MachineStep GenerationMachine::deadline_passed() {
    switch (phase_) {
        case Phase::launching:
            return kill({ExitClass::setup_failed, 0, "the guest did not become ready in time"});
        case Phase::asking: {
            phase_ = Phase::terminating;
            MachineStep step;
            step.terminate = true;
            step.deadline = base::k_terminate_grace;
            return step;
        }
        case Phase::leaving:
            return kill({ExitClass::killed, 0, std::move(lost_detail_)});
        case Phase::terminating:
            return enter_killing();
        case Phase::killing: {
            exit_ = lost_exit();
            has_given_up_ = true;
            phase_ = Phase::dead;
            MachineStep step;
            step.clean_up = true;
            return step;
        }
        case Phase::ready:
        case Phase::freezing:
        case Phase::frozen:
        case Phase::dead:
            return {};
    }
    return {};
}

Exit GenerationMachine::lost_exit() {
    return {ExitClass::lost, 0,
            "its processes did not die within " + std::to_string(base::k_kill_deadline.count()) +
                " s of SIGKILL; they are killed again until they do"};
}

}  // namespace atl::sandbox
