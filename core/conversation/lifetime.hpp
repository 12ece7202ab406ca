// How long a conversation may still live, idle or stay frozen. Pure: times come from outside.
// Internal to core/conversation.
#pragma once

#include <chrono>

#include "core/base/clock.hpp"
#include "core/conversation/machine.hpp"
#include "core/conversation/types.hpp"

namespace atl::conversation {

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
    base::SteadyTime born() const noexcept { return born_; }
    base::SteadyTime last_activity() const noexcept { return active_; }

    /// What is over first, as things are now. `warm_limit`: of a frozen sandbox.
    Due next(const Record& record, const Machine& machine, base::Millis warm_limit,
             base::SteadyTime now) const;
    /// How long ago its time to live was over; zero if it is not.
    base::Millis over_since(const Record& record, base::SteadyTime now) const;

  private:
    base::SteadyTime born_;  // created_at on the clock that never jumps
    base::SteadyTime active_;
    base::SteadyTime frozen_{};
};

}  // namespace atl::conversation
