#include "app/database_watch.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "app/backup_lock.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/plain/unique_fd.hpp"
#include "fs-guard/orphans.hpp"

namespace atl::app {

using base::Errc;
using base::Error;
using base::LogLine;

base::Result<void> check_database_is_there(const DataDir& data, const std::filesystem::path& root) {
    struct stat status {};
    if (::stat(data.database().c_str(), &status) == 0 && status.st_size > 0)
        return {};
    const std::size_t workspaces = fs_guard::count_claimed_workspaces(root);
    if (workspaces == 0)
        return {};
    return Error(
        Errc::storage_failed,
        "the database " + data.database().string() + " is missing, but " + (root / "workspaces").string() +
            " holds " + std::to_string(workspaces) +
            " workspaces of its sandboxes; restore the database from a backup (docs/operations/backup.md), "
            "or begin anew with --adopt-orphans, which keeps those workspaces in " +
            (root / "orphaned").string());
}

DatabaseWatch::DatabaseWatch(base::Timers& timers, store::SqliteStore& store,
                             std::filesystem::path backup_lock)
    : timers_(timers), store_(store), backup_lock_(std::move(backup_lock)) {
    // The server makes this file, so that it can read the file also when another user makes the backup.
    const base::UniqueFd made(::open(backup_lock_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    look();
}

DatabaseWatch::~DatabaseWatch() {
    timers_.cancel(timer_);
}

void DatabaseWatch::look() {
    timer_ = timers_.arm(k_interval, [this] { look(); });
    store_.check_files();
    const auto usable = store_.usable();
    if (!usable && was_usable_)
        LogLine(base::evt::store_failed).quoted("err", usable.error().detail()).error();
    else if (usable && !was_usable_)
        LogLine(base::evt::store_recovered).info();
    was_usable_ = usable.has_value();
    share_with_backup();
}

void DatabaseWatch::share_with_backup() {
    using Sharing = store::SqliteStore::Sharing;
    const bool wanted = is_backup_running(backup_lock_);
    if (wanted == is_shared_)
        return;
    is_shared_ = wanted;
    const auto changed =
        store_.set_sharing(wanted ? Sharing::shared : Sharing::exclusive, store::SqliteStore::Sharer::backup);
    if (!changed)
        LogLine(base::evt::store_failed).quoted("err", changed.error().detail()).warn();
}

}  // namespace atl::app
