// Which environment a sandbox gets: the variables of the allow-list below that the host has, the injected
// variables, and the variables of the create request. Nothing else of the server's environment.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

/// The allow-listed variables that `environ_block` (environ(7), ends with a null pointer) holds. PATH is the
/// host's here: which of its folders a sandbox has, core/isolation knows (inner_path()).
Environment pick_host_env(const char* const* environ_block);

/// Checks the variables of a create request: well-formed names and values, no LD_*, no variable that the
/// server sets itself but LANG, within k_max_env_entries and k_max_env_bytes. Error: invalid_env, naming the
/// variable.
base::Result<void> check_env(const Environment& wanted);

/// The complete environment of a sandbox: what the request says of LANG goes before the host's. `defaults`
/// are routes of its agent. Where a route has the name of an API, its clients find that, and a placeholder
/// for a key in place of the host's.
Environment compose_env(const Environment& host, const Record& record,
                        const std::vector<EgressRoute>& defaults = {});
/// The same of one made by Manager::create_ephemeral(): of `host` PATH and LANG, and HOME.
Environment compose_bare_env(const Environment& host);

}  // namespace atl::sandbox
