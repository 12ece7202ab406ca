#include "core/conversation/admission.hpp"

#include <algorithm>
#include <utility>

#include "core/base/limits.hpp"

namespace atl::conversation {

namespace {

/// The user whose sandboxes may be evicted for a start that finds no room; null means anybody.
const base::ShareHolder* evicted_for(const sandbox::Demand& demand, const base::Error& why) {
    return why.code() == base::Errc::user_share && demand.holder ? &*demand.holder : nullptr;
}

bool lacks_room(const base::Error& why) {
    return why.code() == base::Errc::capacity || why.code() == base::Errc::user_share;
}

base::Error with_time(const base::Error& why, const Victims::Outlook& outlook) {
    if (!outlook.soonest)
        return why;
    return base::Error(why).after(
        std::max(std::chrono::seconds{1}, std::chrono::ceil<std::chrono::seconds>(*outlook.soonest)));
}

}  // namespace

base::Error Admission::refusal_of(const sandbox::Demand& demand, const base::Error& why) const {
    return lacks_room(why) ? with_time(why, ports_.victims.look(demand, evicted_for(demand, why))) : why;
}

base::Result<void> Admission::check_capacity(const sandbox::Demand& demand) const {
    const auto room = ports_.room(demand);
    if (room)
        return room;
    const base::Error& why = room.error();
    if (!lacks_room(why))
        return why;
    const base::ShareHolder* const of = evicted_for(demand, why);
    const Victims::Outlook outlook = ports_.victims.look(demand, of);
    const bool can_evict = outlook.is_possible || (of == nullptr && ports_.can_shrink_pool());
    if (can_evict && ports_.worth_evicting(demand.limits) > 0)
        return {};
    return with_time(why, outlook);
}

base::Result<void> Admission::has_capacity(const sandbox::Demand& demand) const {
    const bool is_before = std::ranges::any_of(waiting_, [](const Waiting& one) { return one.own.empty(); });
    if (is_before)
        return refusal_of(demand,
                          base::Error(base::Errc::capacity, "other starts wait for a place; try again later",
                                      base::k_place_retry)
                              .with("budget", "\"places\""));
    const auto room = ports_.room(demand);
    return room ? room : base::Result<void>(refusal_of(demand, room.error()));
}

void Admission::admit(const std::string& id, const sandbox::Demand& demand, Go go) {
    waiting_.push_back({id, demand, std::move(go)});
    pump();
}

bool Admission::cancel(const std::string& id) {
    return std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.id == id; }) > 0;
}

bool Admission::waits(const std::string& id) const {
    return std::ranges::any_of(waiting_, [&](const Waiting& waiting) { return waiting.id == id; });
}

void Admission::ended(const std::string& sandbox_id) {
    ending_.erase(sandbox_id);
    pump();
}

// These callbacks may re-enter pump().
void Admission::pump() {
    if (std::exchange(pumping_, true))
        return;
    while (pump_once()) {
    }
    pumping_ = false;
}

/// Answers the first start that need not wait. Returns false where there is no such start.
bool Admission::pump_once() {
    for (std::size_t i = 0; i < waiting_.size();) {
        Waiting& first = waiting_[i];
        const auto room = ports_.room(first.demand);
        const bool is_full = !room && room.error().code() == base::Errc::capacity;
        const bool is_own_fault = !room && room.error().code() == base::Errc::user_share;
        if ((is_full || is_own_fault) && evict_for(first, is_own_fault ? Whose::own : Whose::any))
            continue;
        if (is_full && !ending_.empty())
            return false;
        // Starts of other users go ahead meanwhile.
        if (is_own_fault && ending_.contains(first.own)) {
            ++i;
            continue;
        }
        const Go go = std::move(first.go);
        const auto answer = room ? room : base::Result<void>(refusal_of(first.demand, room.error()));
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        go(answer);
        return true;
    }
    return false;
}

bool Admission::evict_for(Waiting& waiting, Whose whose) {
    const std::size_t worth = ports_.worth_evicting(waiting.demand.limits);
    const bool is_enough =
        whose == Whose::own ? ending_.contains(waiting.own) : ending_.size() >= waiting_.size();
    if (worth == 0 || is_enough)
        return false;
    const base::ShareHolder* const of = whose == Whose::own ? &*waiting.demand.holder : nullptr;
    auto ended = of != nullptr ? std::nullopt : ports_.shrink_pool();
    if (!ended && waiting.evictions < worth && ports_.victims.look(waiting.demand, of).is_possible &&
        (ended = ports_.victims.evict(of)))
        ++waiting.evictions;
    if (!ended)
        return false;
    if (whose == Whose::own)
        waiting.own = *ended;
    ending_.insert(std::move(*ended));
    return true;
}

}  // namespace atl::conversation
