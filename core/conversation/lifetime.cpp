#include "core/conversation/lifetime.hpp"

#include <algorithm>

namespace atl::conversation {
namespace {

/// A turn, and a request on its sandbox, are activity for as long as they run.
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

base::Millis Lifetime::over_since(const Record& record, base::SteadyTime now) const {
    const auto age = std::chrono::floor<base::Millis>(now - born_);
    return std::max<base::Millis>(base::Millis{0}, age - std::chrono::seconds(record.ttl_seconds));
}

}  // namespace atl::conversation
