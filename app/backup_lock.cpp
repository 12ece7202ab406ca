#include "app/backup_lock.hpp"

#include <fcntl.h>

#include <cerrno>

namespace atl::app {

using base::Errc;
using base::Error;
using base::UniqueFd;

namespace {

struct flock whole_file() {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return lock;
}

}  // namespace

base::Result<UniqueFd> take_backup_lock(const std::filesystem::path& file) {
    UniqueFd made(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made)
        return Error(Errc::storage_failed, base::errno_text("cannot open " + file.string(), errno));
    struct flock lock = whole_file();
    if (::fcntl(made.get(), F_OFD_SETLK, &lock) != 0)
        return Error(Errc::storage_failed, errno == EAGAIN || errno == EACCES
                                               ? "another backup is being made"
                                               : base::errno_text("cannot lock " + file.string(), errno));
    return made;
}

bool is_backup_running(const std::filesystem::path& file) {
    const UniqueFd opened(::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    struct flock lock = whole_file();
    return opened && ::fcntl(opened.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace atl::app
