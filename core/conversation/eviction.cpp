#include "core/conversation/eviction.hpp"

#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/conversation.hpp"

namespace atl::conversation {

/// The best victim: one that is there for leases alone and has none, then a frozen one, then the longest
/// idle.
Conversation* Eviction::find_victim() const {
    Conversation* best = nullptr;
    const auto rank = [](const Conversation& one) {
        const Machine& machine = one.machine();
        const int kind = machine.is_borrowed() ? 0 : machine.sandbox_is_frozen() ? 1 : 2;
        return std::pair(kind, one.last_activity());
    };
    for (Conversation* candidate : living_) {
        if (candidate->until_spared() == base::Millis{0} &&
            (best == nullptr || rank(*candidate) < rank(*best)))
            best = candidate;
    }
    return best;
}

std::optional<std::string> Eviction::evict() {
    std::erase_if(living_, [](const Conversation* one) { return !one->machine().sandbox_living(); });
    Conversation* const victim = find_victim();
    if (victim == nullptr)
        return std::nullopt;
    std::string sandbox_id = victim->record().sandbox_id;
    base::LogLine(base::evt::sandbox_evicted).field("conv", victim->id()).field("sbx", sandbox_id).info();
    victim->evict();
    return sandbox_id;
}

base::Error Eviction::refusal(const base::Error& why) const {
    if (why.code() != base::Errc::capacity)
        return why;
    auto soonest = base::Millis::max();
    for (const Conversation* one : living_)
        soonest = std::min(soonest, one->until_spared().value_or(base::Millis::max()));
    if (soonest == base::Millis::max())
        return why;
    const auto wait = std::max(std::chrono::seconds{1}, std::chrono::ceil<std::chrono::seconds>(soonest));
    return {why.code(), why.detail(), wait};
}

}  // namespace atl::conversation
