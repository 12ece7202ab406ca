// Limits of a sandbox by name, each of which may be absent: the limits in a request, or their ceilings.
#pragma once

#include "core/sandbox/types.hpp"

namespace atl::http {

using sandbox::LimitChanges;

}  // namespace atl::http
