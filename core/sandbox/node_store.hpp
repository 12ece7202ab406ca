// The facts that this host keeps of its sandboxes, beside the store of conversations; they say nothing on
// another host. A port: SQLite implements it (core/store/node_store.hpp), the simulation has one in memory.
//
// The two stores are never committed together: a start finds either one older than the other, and
// start_sweep.hpp says what counts then. All facts can be made anew from the workspaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace atl::sandbox {

struct HostFacts {
    std::string sandbox_id;
    std::uint32_t host_uid = 0;  // 0: the server's own

    bool operator==(const HostFacts&) const = default;
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
    /// The uid of this sandbox; none without facts.
    virtual base::Result<std::optional<std::uint32_t>> find(const std::string& sandbox_id) = 0;

    // For a start, which goes through all facts without holding them. put_all() and erase_all() are one
    // commit each and may wait for the disk.
    virtual base::Result<void> put_all(std::span<const HostFacts> facts) = 0;
    virtual base::Result<void> erase_all(std::span<const std::string> sandbox_ids) = 0;
    /// The next `limit` behind this id, in the order of the ids; an empty id begins.
    virtual base::Result<std::vector<HostFacts>> list(const std::string& after_id, std::size_t limit) = 0;
    virtual base::Result<std::size_t> count() = 0;
};

}  // namespace atl::sandbox
