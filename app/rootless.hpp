// A server that is not root, and the uids of its sandboxes: subordinate ones where the user has some, the
// server's own for all of them where not.
#pragma once

#include "app/config.hpp"
#include "core/base/error.hpp"

namespace atl::app {

/// Enters a user namespace with the user's subordinate ids (core/isolation/user_namespace.hpp), unless the
/// server is root or the configuration forbids it. A failure is logged, and sandboxes then share the server's
/// uid. Ids in `config` are translated into the namespace. Precondition: one thread, nothing opened yet.
/// Errors: host_unsupported if the data directory has workspaces of subordinate uids and the server cannot
/// get these uids.
base::Result<void> take_subordinate_ids(Config& config);

}  // namespace atl::app
