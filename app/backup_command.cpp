#include "app/backup_command.hpp"

#include "app/backup_lock.hpp"
#include "app/data_dir.hpp"
#include "core/store/backup.hpp"

namespace atl::app {

using base::Errc;
using base::Error;
using base::Result;

Result<CommandOutput> run_backup_command(const Config& config) {
    const auto database = DataDir::database_of(config.data_dir);
    std::error_code failure;
    if (!std::filesystem::is_regular_file(database, failure))
        return Error(Errc::storage_failed, "there is no database " + database.string() +
                                               "; name the server's data directory with --data-dir");
    const auto target = std::filesystem::absolute(config.backup->file).lexically_normal();
    // While this lock is held, a running server lets other processes read the database.
    const auto lock = take_backup_lock(DataDir::backup_lock_of(config.data_dir));
    if (!lock)
        return lock.error();
    if (auto made = store::back_up(database, target); !made)
        return made.error();
    return CommandOutput{"", "The database is in " + target.string() +
                                 "; the workspaces are not: copy those as well, if you need them.\n"};
}

}  // namespace atl::app
