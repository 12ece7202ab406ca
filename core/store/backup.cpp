#include "core/store/backup.hpp"

#include <fcntl.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/limits.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/store/log_mark.hpp"

namespace atl::store {
namespace {

using base::Errc;
using base::Error;
using base::Result;

Result<void> copy_database(const std::filesystem::path& database, const std::filesystem::path& file) {
    try {
        SQLite::Database from(database.string(), SQLite::OPEN_READWRITE,
                              static_cast<int>(base::k_backup_patience.count()));
        // The copy is a single transaction; writers go on beside it (lang_vacuum.html, "VACUUM INTO").
        SQLite::Statement vacuum(from, "VACUUM INTO ?");
        vacuum.bind(1, file.string());
        vacuum.exec();
        SQLite::Database to(file.string(), SQLite::OPEN_READWRITE);
        erase_log_mark(to);
        const std::string checked = to.execAndGet("PRAGMA quick_check(1)").getString();
        if (checked != "ok")
            return Error(Errc::storage_failed, "the database is damaged (" + checked +
                                                   "): no backup is made, keep the last good one");
        return {};
    } catch (const SQLite::Exception& error) {
        return Error(Errc::storage_failed,
                     "cannot copy " + database.string() + " to " + file.string() + ": " + error.what());
    }
}

Result<void> put_in_place(const std::filesystem::path& file, const std::filesystem::path& target) {
    const base::UniqueFd written(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    const base::UniqueFd folder(::open(target.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!written || !folder || ::fsync(written.get()) != 0 || ::rename(file.c_str(), target.c_str()) != 0 ||
        ::fsync(folder.get()) != 0)
        return Error(Errc::storage_failed, base::errno_text("cannot write " + target.string(), errno));
    return {};
}

}  // namespace

Result<void> back_up(const std::filesystem::path& database, const std::filesystem::path& target) {
    const std::filesystem::path file = target.string() + ".partial";
    ::unlink(file.c_str());  // the rest of an interrupted backup
    const mode_t old_mask = ::umask(0077);
    auto done = copy_database(database, file);
    ::umask(old_mask);
    if (done)
        done = put_in_place(file, target);
    if (!done)
        ::unlink(file.c_str());
    return done;
}

}  // namespace atl::store
