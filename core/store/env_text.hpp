// A sandbox's environment as one column: a JSON array of [name, value]. Internal to core/store.
#pragma once

#include <string>

#include "core/sandbox/types.hpp"

namespace atl::store {

std::string env_text(const sandbox::Environment& env);
/// An element that is no pair of strings is skipped.
sandbox::Environment parse_env(const std::string& text);

}  // namespace atl::store
