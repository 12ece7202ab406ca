// Checks the database's files while the server runs: whether their paths still lead to the opened files, and
// whether `atolld backup` wants to read them. A check is a few system calls; the next one follows after
// k_interval.
#pragma once

#include <filesystem>

#include "app/data_dir.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/store/sqlite_store.hpp"

namespace atl::app {

/// Refuses a data directory that has workspaces of conversations but no database: with an empty database none
/// of them would have a record. Errors: storage_failed, with the remedy.
base::Result<void> check_database_is_there(const DataDir& data, const std::filesystem::path& root);

class DatabaseWatch {
  public:
    static constexpr base::Millis k_interval{1000};

    /// Watches from now on; everything given must outlive this.
    DatabaseWatch(base::Timers& timers, store::SqliteStore& store, std::filesystem::path backup_lock);
    ~DatabaseWatch();
    DatabaseWatch(const DatabaseWatch&) = delete;
    DatabaseWatch& operator=(const DatabaseWatch&) = delete;

  private:
    void look();
    void share_with_backup();

    base::Timers& timers_;
    store::SqliteStore& store_;
    std::filesystem::path backup_lock_;
    bool is_shared_ = false;
    bool was_usable_ = true;
    base::TimerId timer_ = 0;
};

}  // namespace atl::app
