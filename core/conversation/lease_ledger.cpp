#include "core/conversation/lease_ledger.hpp"

#include <cassert>
#include <utility>

namespace atl::conversation {

void LeaseLedger::release(LeaseUse use) {
    assert(held_.of(use) > 0);
    --held_.of(use);
}

void LeaseLedger::grant(Actions& out) {
    if (!is_any_wanted())
        return;
    held_.requests += std::exchange(waiting_.requests, 0);
    held_.processes += std::exchange(waiting_.processes, 0);
    disarm_grace(out);
    out.emplace_back(action::GrantLeases{});
}

void LeaseLedger::end(Actions& out, action::EndLeases end) {
    const bool held = end.scope != action::LeaseScope::waiting;
    const bool waiting = end.scope != action::LeaseScope::held;
    if (!(held && is_any_held()) && !(waiting && is_any_wanted()))
        return;
    if (held)
        held_ = {};
    if (waiting)
        waiting_ = {};
    out.emplace_back(std::move(end));
}

void LeaseLedger::arm_grace(Actions& out) {
    if (std::exchange(grace_armed_, true))
        return;
    out.emplace_back(action::ArmLeaseGrace{});
}

void LeaseLedger::disarm_grace(Actions& out) {
    if (std::exchange(grace_armed_, false))
        out.emplace_back(action::DisarmLeaseGrace{});
}

}  // namespace atl::conversation
