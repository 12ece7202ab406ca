// The one block of text at the start of a server that does not limit memory or processor time: a state that
// nothing else in the terminal tells, and in which one sandbox can take the whole host.
#pragma once

#include <string>

#include "app/required_limits.hpp"

namespace atl::app {

/// A warning: the limits that are missing, why, and the cure, with limits_fix() at its end and no line end;
/// empty if memory and processor time are both limited. `gaps` are those of host_gaps().
std::string limits_warning(const Gaps& gaps, Starter starter);

}  // namespace atl::app
