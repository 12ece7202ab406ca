#include "core/conversation/lifetime.hpp"

#include <algorithm>

namespace atl::conversation {
namespace {

/// An open turn, and a request on its sandbox, are activity for as long as they run.
bool can_be_idle(const Record& record, const Machine& machine) {
    return record.idle_seconds > 0 && machine.sandbox_up() && !machine.is_borrowed() &&
           !machine.turn_open() && !machine.is_in_use();
}

}  // namespace

Lifetime::Due Lifetime::next(const Record& record, const Machine& machine, base::Millis warm_limit,
                             base::SteadyTime now) const {
    Due due;
    if (machine.status() == Status::ended)
        return due;
    const auto left = [now](base::Millis whole, base::SteadyTime since) {
        return std::max(base::Millis{0}, whole - std::chrono::floor<base::Millis>(now - since));
    };
    if (machine.sandbox_is_frozen())
        due = {Over::warm_pause, left(warm_limit, frozen_)};
    else if (can_be_idle(record, machine))
        due = {Over::idleness, left(std::chrono::seconds(record.idle_seconds), active_)};
    if (record.ttl_seconds > 0) {
        const auto life = left(std::chrono::seconds(record.ttl_seconds), born_);
        if (life <= due.wait)
            due = {Over::life, life};
    }
    return due;
}

base::Millis Ages::age_of(base::WallTime created_at) const {
    const base::Millis none{0};
    const base::Millis by_wall = clock_.wall_now() - created_at;
    const auto ran = std::chrono::floor<base::Millis>(clock_.steady_now() - steady_began_);
    const base::Millis by_steady = began_ + ran - created_at;
    // The wall clock may have jumped before or after `created_at`: one of the two is then far too high, or
    // below zero.
    const base::Millis age = by_wall < none     ? by_steady
                             : by_steady < none ? by_wall
                                                : std::min(by_wall, by_steady);
    return std::clamp<base::Millis>(age, none, base::k_max_named_time);
}

}  // namespace atl::conversation
