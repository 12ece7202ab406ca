// When an idle stream is given its first sign of life: somewhere in the second half of the interval, so that
// clients that came at the same moment, as all do after a restart, are not served at the same moment for
// ever.
#pragma once

#include "core/base/clock.hpp"

namespace atl::http {

/// From `now` on; from half of `interval` to all of it, by the low bits of `now`. Later ones are an
/// `interval` apart.
base::Millis first_heartbeat(base::Millis interval, base::SteadyTime now) noexcept;

}  // namespace atl::http
