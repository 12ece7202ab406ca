// The time that a conversation may still live, be idle or stay frozen. Pure: times come from outside.
// Internal to core/conversation.
#pragma once

#include <chrono>

#include "core/base/clock.hpp"
#include "core/conversation/machine.hpp"
#include "core/conversation/types.hpp"

namespace atl::conversation {

/// The ages of things for which the store has the wall clock's time.
class Ages {
  public:
    explicit Ages(const base::Clock& clock)
        : clock_(clock), began_(clock.wall_now()), steady_began_(clock.steady_now()) {}

    /// The time since `created_at`, in this run of the server or in an earlier one. A jump of the wall clock
    /// during this run makes nothing older.
    base::Millis age_of(base::WallTime created_at) const;

  private:
    const base::Clock& clock_;
    base::WallTime began_;  // the begin of this run, by both clocks
    base::SteadyTime steady_began_;
};

class Lifetime {
  public:
    enum class Over : std::uint8_t { nothing, life, idleness, warm_pause };
    struct Due {
        Over what = Over::nothing;
        base::Millis wait = base::Millis::max();  // until then
    };

    explicit Lifetime(base::SteadyTime now) : born_(now), active_(now) {}

    /// It is older than this run of the server.
    void add_age(base::Millis age) { born_ -= age; }
    void touch(base::SteadyTime now) { active_ = now; }
    void freeze(base::SteadyTime now) { frozen_ = now; }
    base::SteadyTime last_activity() const noexcept { return active_; }

    /// The bound that is over first, as things are now. `warm_limit` bounds the time of a frozen sandbox.
    Due next(const Record& record, const Machine& machine, base::Millis warm_limit,
             base::SteadyTime now) const;

  private:
    base::SteadyTime born_;  // created_at on the clock that never jumps
    base::SteadyTime active_;
    base::SteadyTime frozen_{};
};

}  // namespace atl::conversation
