// A port: what the store has done with its database by another process, since it waits for the disk.
#pragma once

#include <filesystem>
#include <functional>

#include "core/base/error.hpp"

namespace atl::store {

class CheckpointHelper {
  public:
    /// Called once, from the loop; not at all once the helper is gone.
    using Done = std::function<void(base::Result<void>)>;

    virtual ~CheckpointHelper() = default;
    /// Has the disk take what a database's log holds. Errors: storage_failed.
    virtual void sync_log(const std::filesystem::path& database, Done done) = 0;
    /// Writes a database's log back, as far as nobody reads it. Errors: storage_failed.
    virtual void checkpoint(const std::filesystem::path& database, Done done) = 0;
};

}  // namespace atl::store
