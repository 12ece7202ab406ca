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
    const bool all = end.scope == action::LeaseScope::all;
    if (!is_any_held() && !(all && is_any_wanted()))
        return;
    held_ = {};
    if (all)
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
