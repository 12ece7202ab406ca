// What this host knows of its sandboxes, beside the store of conversations: facts that say nothing on another
// host. A port: SQLite implements it (core/store/node_store.hpp), the simulation has one in memory.
//
// The two stores are never committed together: a start finds either one older than the other, and
// start_sweep.hpp says what counts then. All facts can be made anew from the workspaces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace atl::sandbox {

struct HostFacts {
    std::string sandbox_id;
    std::uint32_t host_uid = 0;  // 0: the server's own
};

/// Each call survives the death of the server once it has ended, and waits for no disk. Errors:
/// storage_failed, with the remedy; then nothing has changed.
class NodeStore {
  public:
    virtual ~NodeStore() = default;
    /// Replaces the facts of the same sandbox.
    virtual base::Result<void> put(const HostFacts& facts) = 0;
    /// Does nothing if there are none.
    virtual base::Result<void> erase(const std::string& sandbox_id) = 0;
    /// Of all sandboxes, in no order.
    virtual base::Result<std::vector<HostFacts>> load() = 0;
};

}  // namespace atl::sandbox
