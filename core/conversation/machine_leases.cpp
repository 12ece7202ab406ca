// The inputs of the machine that concern leases.
#include <cassert>

#include "core/conversation/machine.hpp"

namespace atl::conversation {

Actions Machine::acquire_lease(LeaseUse use) {
    assert(can_lease());
    Actions out;
    leases_.want(use);
    if (use == LeaseUse::process)
        activate(out);
    else if (run_state_ == RunState::absent)
        begin_borrowed_start(out);
    else if (run_state_ == RunState::frozen)
        begin_borrowed_thaw(out);
    else if (run_state_ == RunState::up)
        leases_.grant(out);
    return out;
}

Actions Machine::release_lease(LeaseUse use) {
    Actions out;
    leases_.release(use);
    arm_lease_grace(out);
    return out;
}

Actions Machine::lease_grace_passed() {
    Actions out;
    leases_.grace_passed();
    if (!borrowed_ || run_state_ != RunState::up || is_in_use())
        return out;
    const char* const why = "no request needed it any longer";
    if (!in_log_) {
        begin_stop(out, reason_, why, sandbox::ExitClass::stopped);
        return out;
    }
    planned_ = reason_;
    planned_text_ = why;
    run_state_ = RunState::freezing;
    out.emplace_back(action::FreezeSandbox{});
    return out;
}

void Machine::arm_lease_grace(Actions& out) {
    if (borrowed_ && run_state_ == RunState::up && !is_in_use())
        leases_.arm_grace(out);
}

}  // namespace atl::conversation
