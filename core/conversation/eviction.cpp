#include "core/conversation/eviction.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/conversation.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

void Eviction::add(Conversation& conversation) {
    const base::ShareHolder user = conversation.record().holder();
    groups_.try_emplace(user.name(), Group{user}).first->second.living.insert(&conversation);
}

void Eviction::erase(Conversation& conversation) {
    const auto found = groups_.find(conversation.record().holder().name());
    if (found != groups_.end() && found->second.living.erase(&conversation) > 0 &&
        found->second.living.empty())
        groups_.erase(found);
}

const Eviction::Group* Eviction::find(const base::ShareHolder& user) const {
    const auto found = groups_.find(user.name());
    return found == groups_.end() ? nullptr : &found->second;
}

/// The user who holds most, among those with a sandbox that may be ended for others.
const Eviction::Group* Eviction::heaviest() const {
    const Group* most = nullptr;
    double held = 0;
    for (const auto& [name, group] : groups_) {
        const double part = context_.sandboxes.part_held(group.user);
        if ((most == nullptr || part > held) && context_.sandboxes.may_spare(group.user) &&
            std::ranges::any_of(group.living, [this](const auto* one) { return is_spared(*one); })) {
            most = &group;
            held = part;
        }
    }
    return most;
}

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

/// The first that are to be ended, as many as one start is worth: those that were started for leases alone
/// and have none, then frozen ones, then those that were idle for longest.
std::vector<Conversation*> Eviction::find_victims(const Group& group) const {
    std::vector<Conversation*> spared;
    std::ranges::copy_if(group.living, std::back_inserter(spared),
                         [this](const auto* one) { return is_spared(*one); });
    const auto rank = [](const Conversation* one) {
        const Machine& machine = one->machine();
        const int kind = machine.is_borrowed() ? 0 : machine.sandbox_is_frozen() ? 1 : 2;
        return std::pair(kind, one->last_activity());
    };
    const std::size_t most = std::min(spared.size(), base::k_max_evictions_per_start);
    std::ranges::partial_sort(spared, spared.begin() + static_cast<std::ptrdiff_t>(most), {}, rank);
    spared.resize(most);
    return spared;
}

/// True if the ends of its victims bring this start within the user's share.
bool Eviction::is_enough(const Group& group, const sandbox::Demand& demand) const {
    sandbox::Places ended;
    return std::ranges::any_of(find_victims(group), [&](const Conversation* one) {
        ++ended.sandboxes;
        ended.memory_mb += context_.sandboxes.memory_limit_mb(one->record().sandbox_id).value_or(0);
        return context_.sandboxes.has_share(demand, ended);
    });
}

Victims::Outlook Eviction::look(const sandbox::Demand& demand, const base::ShareHolder* of) const {
    Outlook outlook;
    const auto add_group = [&](const Group& group) {
        bool has_spared = false;
        for (const Conversation* one : group.living) {
            const auto time = time_to_evictable(*one);
            if (time)
                outlook.soonest = std::min(*time, outlook.soonest.value_or(*time));
            has_spared |= time == base::Millis{0};
        }
        outlook.is_possible |= has_spared && (of != nullptr ? is_enough(group, demand)
                                                            : context_.sandboxes.may_spare(group.user));
    };
    if (of == nullptr) {
        for (const auto& [name, group] : groups_)
            add_group(group);
    } else if (const Group* const own = find(*of)) {
        add_group(*own);
    }
    return outlook;
}

std::optional<std::string> Eviction::evict(const base::ShareHolder* of) {
    for (auto at = groups_.begin(); at != groups_.end();) {
        auto& living = at->second.living;
        std::erase_if(living, [](const Conversation* one) { return !one->machine().sandbox_living(); });
        at = living.empty() ? groups_.erase(at) : std::next(at);
    }
    const Group* const group = of == nullptr ? heaviest() : find(*of);
    const auto victims = group == nullptr ? std::vector<Conversation*>() : find_victims(*group);
    if (victims.empty())
        return std::nullopt;
    Conversation& victim = *victims.front();
    std::string sandbox_id = victim.record().sandbox_id;
    base::LogLine(base::evt::sandbox_evicted).field("conv", victim.id()).field("sbx", sandbox_id).info();
    victim.evict();
    return sandbox_id;
}

}  // namespace atl::conversation
