// --require: the limits that this host must enforce; otherwise the server does not start.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"

namespace atl::app {

/// The names of Enforcement's fields as the API writes them.
const std::vector<std::string>& limit_names();

/// Why a limit is not enforced, by name; a limit that is enforced has no entry.
using Gaps = std::map<std::string, std::string>;

/// The limits that `enforcement` does not enforce, each with the reason that `known` has for it.
Gaps gaps_of(const sandbox::Enforcement& enforcement, const Gaps& known);

/// Errors: host_unsupported, naming each of `required` that is in `gaps` and why.
base::Result<void> check_required(const std::vector<std::string>& required, const Gaps& gaps);

enum class Starter : std::uint8_t { root, user };

/// The user that runs this process: root of the host, or another one.
Starter this_starter();

/// The base::fix_line() with which memory and processor time are limited.
std::string limits_fix(Starter starter);

}  // namespace atl::app
