#include "core/plain/tree_remover.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace atl::base {
namespace {

// openat2(2): neither a mount nor a symlink can lead out of the tree.
int open_beneath(int folder, const char* path, std::uint64_t flags) {
    open_how how{};
    how.flags = flags | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    return static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how));
}

// Gives the owner its permissions back; by the descriptor, so that no symlink is followed.
bool make_accessible(int folder, const char* name) {
    const int fd = open_beneath(folder, name, O_PATH | O_DIRECTORY);
    if (fd < 0)
        return false;
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    const bool changed = ::chmod(path.c_str(), 0700) == 0;
    ::close(fd);
    return changed;
}

int open_folder(int folder, const char* name) {
    const int fd = open_beneath(folder, name, O_RDONLY | O_DIRECTORY);
    if (fd >= 0 || errno != EACCES || !make_accessible(folder, name))
        return fd;
    return open_beneath(folder, name, O_RDONLY | O_DIRECTORY);
}

bool is_dot(const char* name) {
    return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

}  // namespace

TreeRemover::~TreeRemover() {
    for (const Level& level : levels_)
        ::closedir(level.stream);
    if (parent_ >= 0)
        ::close(parent_);
}

void TreeRemover::note_failure(const char* what, int error_number) {
    if (!error_.empty())
        return;
    error_ = std::string(what) + ": " + std::strerror(error_number);
    error_number_ = error_number;
}

void TreeRemover::begin(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    parent_ = open_beneath(AT_FDCWD, folder.c_str(), O_PATH | O_DIRECTORY);
    begin_with(name.c_str());
}

void TreeRemover::begin(int folder, const std::string& name) {
    parent_ = ::fcntl(folder, F_DUPFD_CLOEXEC, 0);
    begin_with(name.c_str());
}

void TreeRemover::begin_with(const char* name) {
    if (parent_ < 0)
        return note_failure("open", errno);
    // The names are random: no process can have taken that of a folder that is moved up.
    if (::getrandom(&random_, sizeof random_, 0) != sizeof random_)
        return note_failure("getrandom", errno);
    if (!unlink_entry(name) && errno != ENOENT)
        descend(name);
}

bool TreeRemover::step(std::size_t entries) {
    for (std::size_t done = 0; done < entries && !levels_.empty(); ++done)
        next_entry();
    return !levels_.empty();
}

void TreeRemover::next_entry() {
    errno = 0;
    const dirent* entry = ::readdir(levels_.back().stream);
    if (!entry)
        leave();
    else if (!is_dot(entry->d_name))
        take_entry(*entry);
}

void TreeRemover::take_entry(const dirent& entry) {
    if (entry.d_type == DT_DIR) {
        descend(entry.d_name);
    } else if (!unlink_entry(entry.d_name)) {
        // A file system that does not tell types: unlink(2) refuses folders with EISDIR, as POSIX with EPERM.
        if (errno == EISDIR || errno == EPERM)
            descend(entry.d_name);
        else
            note_failure("unlink", errno);
    }
}

// Files only. In an inner folder that its owner may not write to, permission is restored first.
bool TreeRemover::unlink_entry(const char* name) {
    const int folder = levels_.empty() ? parent_ : top();
    bool gone = ::unlinkat(folder, name, 0) == 0;
    if (!gone && errno == EACCES && !levels_.empty() && ::fchmod(folder, 0700) == 0)
        gone = ::unlinkat(folder, name, 0) == 0;
    if (!gone)
        return false;
    ++removed_;
    if (!levels_.empty())
        levels_.back().progressed = true;
    return true;
}

void TreeRemover::descend(const char* name) {
    if (levels_.size() == k_max_open_levels) {
        hoist(name);
        return;
    }
    const int fd = open_folder(levels_.empty() ? parent_ : top(), name);
    if (fd < 0) {
        note_failure("open folder", errno);
        return;
    }
    DIR* stream = ::fdopendir(fd);
    if (!stream) {
        note_failure("read folder", errno);
        ::close(fd);
        return;
    }
    levels_.push_back(Level{stream, name});
}

// Moves a folder up to the top of the tree; the pass over the top is then repeated. Moving a folder rewrites
// its "..", so its owner must be allowed to write to it (rename(2)).
void TreeRemover::hoist(const char* name) {
    const std::string target = ".hoisted-" + std::to_string(random_) + "-" + std::to_string(++hoisted_);
    const int root = ::dirfd(levels_.front().stream);
    bool moved = ::renameat2(top(), name, root, target.c_str(), RENAME_NOREPLACE) == 0;
    if (!moved && errno == EACCES) {
        make_accessible(top(), name);
        ::fchmod(top(), 0700);
        moved = ::renameat2(top(), name, root, target.c_str(), RENAME_NOREPLACE) == 0;
    }
    if (!moved) {
        note_failure("move a folder up", errno);
        return;
    }
    levels_.back().progressed = true;
    levels_.front().progressed = true;
}

int TreeRemover::above() const {
    return levels_.size() > 1 ? ::dirfd(levels_[levels_.size() - 2].stream) : parent_;
}

// Removes the folder at the end of its stream, or reads it once more if something in it has changed.
void TreeRemover::leave() {
    Level& level = levels_.back();
    int folder = above();
    bool gone = ::unlinkat(folder, level.name.c_str(), AT_REMOVEDIR) == 0;
    if (!gone && errno == EACCES && levels_.size() > 1 && ::fchmod(folder, 0700) == 0)
        gone = ::unlinkat(folder, level.name.c_str(), AT_REMOVEDIR) == 0;
    if (!gone && errno == ENOTEMPTY && level.progressed) {
        level.progressed = false;
        ::rewinddir(level.stream);
        return;
    }
    if (!gone)
        note_failure("rmdir", errno);
    ::closedir(level.stream);
    levels_.pop_back();
    removed_ += gone ? 1 : 0;
    if (gone && !levels_.empty())
        levels_.back().progressed = true;
}

}  // namespace atl::base
