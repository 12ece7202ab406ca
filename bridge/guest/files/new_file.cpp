#include "bridge/guest/files/new_file.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bridge/guest/files/abandoned_copies.hpp"

namespace atl::guest {
namespace {

constexpr std::string_view k_new_file_prefix = ".atoll-write-";
constexpr std::size_t k_random_digits = 16;
constexpr std::size_t k_most_number_digits = 20;  // of 64 bits
constexpr long k_nanoseconds_of_second = 1'000'000'000;
constexpr time_t k_most_seconds_ahead = 1;

/// 16 hexadecimal digits, of this process alone.
const std::string& own_prefix() {
    static const std::string prefix = [] {
        std::array<unsigned char, 8> random{};
        static_cast<void>(getrandom(random.data(), random.size(), 0));
        std::string text(k_new_file_prefix);
        for (const unsigned char byte : random)
            text.append({"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]});
        return text += '-';
    }();
    return prefix;
}

bool rename_in(int folder, const std::string& from, const std::string& to, Replace replace) {
    const unsigned flags = replace == Replace::yes ? 0 : RENAME_NOREPLACE;
    return renameat2(folder, from.c_str(), folder, to.c_str(), flags) == 0;
}

}  // namespace

std::string hidden_name() {
    static std::uint64_t made = 0;
    return own_prefix() + std::to_string(++made);
}

bool is_hidden_name(std::string_view name) {
    if (!name.starts_with(k_new_file_prefix))
        return false;
    name.remove_prefix(k_new_file_prefix.size());
    if (name.size() <= k_random_digits + 1 || name.size() > k_random_digits + 1 + k_most_number_digits)
        return false;
    return name.find_first_not_of("0123456789abcdef") == k_random_digits && name[k_random_digits] == '-' &&
           name.find_first_not_of("0123456789", k_random_digits + 1) == std::string_view::npos;
}

bool has_hidden_name(std::string_view path) {
    while (!path.empty()) {
        const std::size_t slash = std::min(path.find('/'), path.size());
        if (is_hidden_name(path.substr(0, slash)))
            return true;
        path.remove_prefix(std::min(slash + 1, path.size()));
    }
    return false;
}

bool is_stale_name(std::string_view name) {
    return is_hidden_name(name) && !name.starts_with(own_prefix());
}

bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t size = ::write(fd, bytes.data(), bytes.size());
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return false;
        bytes.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

void move_time_on(int fd, const timespec& former) {
    struct stat about {};
    if (fstat(fd, &about) != 0)
        return;
    const timespec& now = about.st_mtim;
    const bool is_on =
        now.tv_sec > former.tv_sec || (now.tv_sec == former.tv_sec && now.tv_nsec > former.tv_nsec);
    if (is_on || former.tv_sec - now.tv_sec > k_most_seconds_ahead)
        return;
    timespec times[2] = {{0, UTIME_OMIT}, former};
    if (++times[1].tv_nsec == k_nanoseconds_of_second) {
        times[1].tv_nsec = 0;
        ++times[1].tv_sec;
    }
    static_cast<void>(futimens(fd, times));
}

HiddenName::HiddenName(HiddenName&& other) noexcept
    : folder_(other.folder_), name_(std::exchange(other.name_, {})), abandoned_(other.abandoned_) {}

HiddenName::~HiddenName() {
    if (name_.empty() || unlinkat(folder_, name_.c_str(), 0) == 0 || errno == ENOENT)
        return;
    if (abandoned_ != nullptr)
        abandoned_->take(folder_, std::move(name_));
}

bool HiddenName::publish(const std::string& as, Replace replace) {
    if (!rename_in(folder_, name_, as, replace))
        return false;
    // rename(2) onto a hard link of the same file keeps both names. After others this finds nothing.
    unlinkat(folder_, name_.c_str(), 0);
    name_.clear();
    return true;
}

NewFile::NewFile(int folder)
    : folder_(folder), fd_(openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    // Without O_TMPFILE the flags mean a directory that is opened for writing.
    if (fd_ || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return;
    const std::string name = hidden_name();
    fd_.reset(openat(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd_)
        hidden_.emplace(folder, name);
}

bool NewFile::write(std::string_view bytes) {
    return write_all(fd_.get(), bytes);
}

// A name that is free is taken at once. linkat(2) replaces nothing: otherwise rename(2) has to.
bool NewFile::publish(const std::string& as, mode_t mode, Replace replace) {
    // The file system may give the new file the inode number of an older file of this name, and the tag has
    // that number.
    struct stat former {};
    if (replace == Replace::yes && fstatat(folder_, as.c_str(), &former, AT_SYMLINK_NOFOLLOW) == 0)
        move_time_on(fd_.get(), former.st_mtim);
    if (fchmod(fd_.get(), mode) != 0)
        return false;
    if (hidden_)
        return hidden_->publish(as, replace);
    const std::string link = "/proc/self/fd/" + std::to_string(fd_.get());
    if (linkat(AT_FDCWD, link.c_str(), folder_, as.c_str(), AT_SYMLINK_FOLLOW) == 0)
        return true;
    if (errno != EEXIST || replace == Replace::no)
        return false;
    const std::string name = hidden_name();
    if (linkat(AT_FDCWD, link.c_str(), folder_, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
        return false;
    return hidden_.emplace(folder_, name).publish(as, Replace::yes);
}

}  // namespace atl::guest
