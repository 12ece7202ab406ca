#include "fs-guard/helper/tree_meter.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "fs-guard/helper/progress.hpp"

namespace atl::helper {
namespace {

constexpr std::size_t k_read_bytes = 32UL * 1024;
constexpr std::uint64_t k_stat_block_bytes = 512;  // of st_blocks (stat(2)), on every file system

/// getdents64(2), for which libc has no struct.
struct DirectoryEntry {
    std::uint64_t inode;
    std::int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[1];
};

// openat2(2): neither a mount nor a symlink can lead out of the tree.
int open_folder(int folder, const char* path) {
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME;
    how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    int fd = static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how));
    if (fd < 0 && errno == EPERM) {  // O_NOATIME is for owners (open(2))
        how.flags &= ~static_cast<std::uint64_t>(O_NOATIME);
        fd = static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how));
    }
    return fd;
}

// A server that is not root shares its uid with the sandbox, which can lock it out of a folder.
int open_locked_folder(int folder, const char* name) {
    const int fd = ::openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    struct stat status {};
    const bool opened =
        ::fstat(fd, &status) == 0 && ::chmod(path.c_str(), (status.st_mode & 07777) | 0500) == 0;
    ::close(fd);
    return opened ? open_folder(folder, name) : -1;
}

std::chrono::nanoseconds processor_time() {
    timespec spent{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

bool is_dot(const char* name) {
    return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

}  // namespace

TreeMeter::~TreeMeter() {
    drop_levels();
}

void TreeMeter::drop_levels() {
    for (const Level& level : levels_) {
        if (level.fd >= 0)
            ::close(level.fd);
    }
    levels_.clear();
    open_ = 0;
}

bool TreeMeter::measure(const std::string& path) {
    began_at_ = processor_time();
    int fd = open_folder(AT_FDCWD, path.c_str());
    if (fd < 0 && errno == EACCES)
        fd = open_locked_folder(AT_FDCWD, path.c_str());
    if (fd < 0 || !push(fd)) {
        error_ = std::string("open: ") + std::strerror(errno);
        return false;
    }
    work_off();
    return true;
}

bool TreeMeter::is_within_bounds() const {
    return inodes_ <= bounds_.entries && levels_.size() <= bounds_.levels &&
           processor_time() - began_at_ <= bounds_.processor_time;
}

void TreeMeter::work_off() {
    while (!levels_.empty()) {
        if (!is_within_bounds()) {
            too_large_ = true;
            complete_ = false;
            return drop_levels();
        }
        Level& level = levels_.back();
        if (!level.below.empty()) {
            const std::string name = std::move(level.below.back());
            level.below.pop_back();
            descend(level.fd, name);
        } else if (level.at_end || !read_more(level)) {
            leave();
        }
    }
}

/// Counts the entries of the next read of the folder. False at its end.
bool TreeMeter::read_more(Level& level) {
    alignas(DirectoryEntry) static std::array<char, k_read_bytes> buffer;
    const long count = ::syscall(SYS_getdents64, level.fd, buffer.data(), buffer.size());
    if (count < 0 && errno != ENOENT)
        complete_ = false;  // ENOENT: it has just been removed
    if (count <= 0) {
        level.at_end = true;
        return false;
    }
    for (long at = 0; at < count;) {
        const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer.data() + at);
        level.position = entry->offset;
        if (!is_dot(entry->name))
            take_entry(level, entry->name, entry->type);
        at += entry->length;
    }
    return true;
}

void TreeMeter::take_entry(Level& level, const char* name, unsigned char type) {
    if (type == DT_DIR) {
        level.below.emplace_back(name);  // counted when it is opened
        return;
    }
    struct stat status {};
    if (::fstatat(level.fd, name, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0)
        return;  // gone meanwhile
    if (S_ISDIR(status.st_mode))
        level.below.emplace_back(name);
    else
        count(status);
}

void TreeMeter::count(const struct stat& status) {
    note_progress();
    const auto names = S_ISDIR(status.st_mode) ? 1U : std::max<nlink_t>(status.st_nlink, 1);
    bytes_ += static_cast<std::uint64_t>(status.st_blocks) * k_stat_block_bytes / names;
    ++inodes_;
}

void TreeMeter::descend(int folder, const std::string& name) {
    int fd = open_folder(folder, name.c_str());
    if (fd < 0 && errno == EACCES)
        fd = open_locked_folder(folder, name.c_str());
    if (fd >= 0)
        push(fd);
    else if (errno != ENOENT && errno != ENOTDIR && errno != EXDEV)
        complete_ = false;
}

bool TreeMeter::push(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        ::close(fd);
        complete_ = false;
        return false;
    }
    count(status);
    if (open_ == k_max_open_folders)
        close_highest();
    Level level;
    level.fd = fd;
    level.device = status.st_dev;
    level.inode = status.st_ino;
    levels_.push_back(std::move(level));
    ++open_;
    return true;
}

// Closes the open folder nearest to the top: it is needed last.
void TreeMeter::close_highest() {
    Level& highest = levels_[levels_.size() - open_];
    ::close(highest.fd);
    highest.fd = -1;
    --open_;
}

void TreeMeter::leave() {
    const int left = levels_.back().fd;
    levels_.pop_back();
    --open_;
    if (!levels_.empty() && levels_.back().fd < 0) {
        Level& above = levels_.back();
        above.fd = ::openat(left, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat status {};
        const bool same = above.fd >= 0 && ::fstat(above.fd, &status) == 0 && status.st_dev == above.device &&
                          status.st_ino == above.inode && ::lseek(above.fd, above.position, SEEK_SET) >= 0;
        if (above.fd >= 0)
            ++open_;
        if (!same) {
            // It was moved: no way back up from here.
            complete_ = false;
            drop_levels();
        }
    }
    ::close(left);
}

}  // namespace atl::helper
