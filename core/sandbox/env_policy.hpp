// Which environment a sandbox gets: exactly the allow-list below, passed through where the host has it,
// the injected variables, and what a create request adds. Nothing else of the server's environment.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

/// The allow-listed variables that `environ_block` (environ(7), ends with a null pointer) holds.
Environment pick_host_env(const char* const* environ_block);

/// What a create request may add: well-formed names and values, no LD_*, none that the server sets itself,
/// within k_max_env_entries and k_max_env_bytes. Error: invalid_env, naming the variable.
base::Result<void> check_env(const Environment& wanted);

/// The complete environment of a sandbox.
Environment compose_env(const Environment& host, const Record& record);

}  // namespace atl::sandbox
