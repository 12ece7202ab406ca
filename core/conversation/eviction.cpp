#include "core/conversation/eviction.hpp"

#include <algorithm>
#include <utility>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/conversation.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {
namespace {

bool is_of(const Conversation& one, const base::ShareHolder* user) {
    return user == nullptr || one.record().holder() == *user;
}

/// The number of sandboxes that have to end before a user without room in its share has some.
std::uint64_t ends_needed(const base::Budget& places, const base::ShareHolder& user) {
    const std::uint64_t held = places.held_by(user);
    std::uint64_t ends = 1;
    while (ends < held && places.room(user, ends) == 0)
        ++ends;
    return ends;
}

}  // namespace

/// The time until its sandbox may be ended for another one; none: it may not, as things are. A frozen sandbox
/// may be ended at once, and so may a sandbox that only waits out the grace of its last lease. Every other
/// one must have been idle for a while, and nobody may follow it: a follower is about to write.
std::optional<base::Millis> Eviction::time_to_evictable(const Conversation& one) const {
    const Machine& machine = one.machine();
    if (one.is_erasing() || machine.status() == Status::ended || machine.turn_open() || machine.is_in_use())
        return std::nullopt;
    if (machine.sandbox_is_frozen() || (machine.is_borrowed() && machine.sandbox_up()))
        return base::Millis{0};
    if (!machine.sandbox_up() || one.log()->is_followed())
        return std::nullopt;
    const auto idle = std::chrono::floor<base::Millis>(context_.clock.steady_now() - one.last_activity());
    return std::max(base::Millis{0}, context_.settings.evict_idle - idle);
}

/// The best victim. First comes a sandbox that was started for leases alone and has none, then a frozen one,
/// then the one that was idle for longest.
Conversation* Eviction::find_victim(const base::ShareHolder* of) const {
    Conversation* best = nullptr;
    const auto rank = [](const Conversation& one) {
        const Machine& machine = one.machine();
        const int kind = machine.is_borrowed() ? 0 : machine.sandbox_is_frozen() ? 1 : 2;
        return std::pair(kind, one.last_activity());
    };
    for (Conversation* candidate : living_) {
        if (is_of(*candidate, of) && time_to_evictable(*candidate) == base::Millis{0} &&
            (best == nullptr || rank(*candidate) < rank(*best)))
            best = candidate;
    }
    return best;
}

bool Eviction::is_possible(const base::ShareHolder* of) const {
    if (of == nullptr)
        return find_victim(of) != nullptr;
    const std::uint64_t needed = ends_needed(context_.sandboxes.places(), *of);
    const auto spared = std::ranges::count_if(living_, [&](const Conversation* one) {
        return is_of(*one, of) && time_to_evictable(*one) == base::Millis{0};
    });
    return needed <= base::k_max_evictions_per_start && std::cmp_less_equal(needed, spared);
}

std::optional<std::string> Eviction::evict(const base::ShareHolder* of) {
    std::erase_if(living_, [](const Conversation* one) { return !one->machine().sandbox_living(); });
    Conversation* const victim = find_victim(of);
    if (victim == nullptr)
        return std::nullopt;
    std::string sandbox_id = victim->record().sandbox_id;
    base::LogLine(base::evt::sandbox_evicted).field("conv", victim->id()).field("sbx", sandbox_id).info();
    victim->evict();
    return sandbox_id;
}

base::Error Eviction::refusal(const base::Error& why, const base::ShareHolder* of) const {
    if (why.code() != base::Errc::capacity && why.code() != base::Errc::user_share)
        return why;
    auto soonest = base::Millis::max();
    for (const Conversation* one : living_) {
        if (is_of(*one, of))
            soonest = std::min(soonest, time_to_evictable(*one).value_or(base::Millis::max()));
    }
    if (soonest == base::Millis::max())
        return why;
    return base::Error(why).after(
        std::max(std::chrono::seconds{1}, std::chrono::ceil<std::chrono::seconds>(soonest)));
}

}  // namespace atl::conversation
