#include "app/data_dir.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/fix.hpp"
#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/secrets/sealer.hpp"
#include "http/access/key_file.hpp"

namespace atl::app {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::UniqueFd;

Error storage(const std::string& what, int error_number) {
    return {Errc::storage_failed, base::errno_text(what, error_number)};
}

std::string read_small(int fd) {
    std::array<char, 256> buffer{};
    const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), 0);
    std::string text(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.pop_back();
    return text;
}

/// Writes a file of mode 0600, which appears whole or not at all.
Result<void> put_small(const std::filesystem::path& file, const std::string& text) {
    const std::filesystem::path temporary = file.string() + ".new";
    const UniqueFd made(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!made || ::write(made.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::fsync(made.get()) != 0 || ::rename(temporary.c_str(), file.c_str()) != 0)
        return storage("cannot write " + file.string(), errno);
    return {};
}

/// The content of a one-line file of mode 0600, made with `fresh` if it is not there.
Result<std::string> read_or_make(const std::filesystem::path& file, const std::string& fresh) {
    const UniqueFd have(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (have) {
        std::string text = read_small(have.get());
        if (!text.empty())
            return text;
    } else if (errno != ENOENT) {
        return storage("cannot read " + file.string(), errno);
    }
    if (auto written = put_small(file, fresh + "\n"); !written)
        return written.error();
    return fresh;
}

/// The id of the folder's instance, which names groups and leases on the host. It is bound to the folder that
/// it was made for: a copy (cp, rsync, a snapshot, a restored backup) gets an id of its own, or its server
/// would take the sandboxes of the other one for leftovers of its own and kill them.
Result<std::string> identity_of(const std::filesystem::path& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0)
        return storage("cannot look at " + folder.string(), errno);
    const std::string place = std::to_string(status.st_dev) + " " + std::to_string(status.st_ino);
    const auto file = folder / "instance-id";
    const std::string fresh = base::new_id();
    auto kept = read_or_make(file, fresh + "\n" + place);
    if (!kept)
        return kept.error();
    const std::size_t end = kept->find('\n');
    const std::string id = kept->substr(0, end);
    if (!base::is_id(id))
        return Error(Errc::storage_failed, file.string() + " does not hold an id; restore it");
    const std::string its_place = end == std::string::npos ? "" : kept->substr(end + 1);
    if (its_place == place)
        return id;
    // The file of an older server holds no place (device and inode) yet: the id stays.
    const std::string& now = its_place.empty() ? id : fresh;
    if (auto written = put_small(file, now + "\n" + place + "\n"); !written)
        return written.error();
    if (!its_place.empty())
        base::LogLine(base::evt::instance_renewed)
            .field("err", "the data directory is a copy, or its file system has another number")
            .field("was", id)
            .field("is", fresh)
            .warn();
    return now;
}

/// A crash leaves a whole key or none: a key that secrets were sealed with is on the disk.
Result<secrets::SecureText> make_secrets_key(const std::filesystem::path& folder,
                                             const std::filesystem::path& file) {
    auto key = secrets::new_sealing_key();
    if (!key)
        return key;
    const std::filesystem::path temporary = file.string() + ".new";
    ::unlink(temporary.c_str());  // the rest of an interrupted start
    const UniqueFd made(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    const UniqueFd place(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!made || !place ||
        ::write(made.get(), key->data(), key->size()) != static_cast<ssize_t>(key->size()) ||
        ::fsync(made.get()) != 0 || ::rename(temporary.c_str(), file.c_str()) != 0 ||
        ::fsync(place.get()) != 0)
        return storage("cannot write " + file.string(), errno);
    return key;
}

Result<UniqueFd> take_lock(const std::filesystem::path& dir) {
    const auto file = dir / "lock";
    UniqueFd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) {
        const std::string hint = errno == EROFS || errno == EACCES
                                     ? "; choose a folder that this user can write to with --data-dir"
                                     : "";
        return Error(
            Errc::storage_failed,
            base::errno_text("the data directory " + dir.string() + " is not writable", errno) + hint);
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        const std::string holder = read_small(lock.get());
        return Error(Errc::storage_failed,
                     "the data directory " + dir.string() + " is in use by another server" +
                         (holder.empty() ? "" : " (pid " + holder + ")") +
                         "; stop that one or choose another with --data-dir" +
                         base::fix_line("atolld --data-dir " + dir.string() + "-2 ..."));
    }
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), pid.data(), pid.size(), 0) < 0)
        return storage("cannot write " + file.string(), errno);
    return lock;
}

}  // namespace

Result<DataDir> DataDir::open(const std::filesystem::path& path) {
    std::error_code failure;
    const bool fresh = !std::filesystem::exists(path, failure);
    std::filesystem::create_directories(path, failure);
    if (failure)
        return Error(Errc::storage_failed, "cannot make the data directory " + path.string() + ": " +
                                               failure.message() + "; choose another with --data-dir");
    if (fresh && ::chmod(path.c_str(), 0700) != 0) {
        const int error = errno;
        std::filesystem::remove(path, failure);  // the next start would take it as it is
        return storage("cannot set the mode of " + path.string(), error);
    }
    auto lock = take_lock(path);
    if (!lock)
        return lock.error();
    DataDir dir(path, std::move(*lock));
    auto instance = identity_of(path);
    if (!instance)
        return instance.error();
    dir.instance_id_ = std::move(*instance);
    for (const auto& folder : {dir.run(), dir.etc()}) {
        if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
            return storage("cannot make " + folder.string(), errno);
    }
    return dir;
}

// A new file with the inode number of a removed file has another time of birth, where the file system tells
// it (statx(2)).
Result<std::string> DataDir::place_of_logs() const {
    struct statx status {};
    if (::statx(AT_FDCWD, database().c_str(), 0, STATX_INO | STATX_BTIME, &status) != 0)
        return storage("cannot look at " + database().string(), errno);
    std::string place = instance_id_ + " " + std::to_string(status.stx_ino);
    if ((status.stx_mask & STATX_BTIME) != 0)
        place +=
            " " + std::to_string(status.stx_btime.tv_sec) + "." + std::to_string(status.stx_btime.tv_nsec);
    return place;
}

std::string boot_of_host() {
    const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    const std::string id = file ? read_small(file.get()) : "";
    return id.empty() ? "unknown" : id;
}

Result<std::string> usable_key(std::string_view text, const std::string& source) {
    constexpr std::size_t k_shortest = 16;
    constexpr std::string_view k_blanks = " \t\r\n\v\f";
    constexpr std::string_view k_byte_order_mark = "\xef\xbb\xbf";
    if (text.starts_with(k_byte_order_mark))
        text.remove_prefix(k_byte_order_mark.size());
    const std::size_t begin = std::min(text.find_first_not_of(k_blanks), text.size());
    text = text.substr(begin, text.find_last_not_of(k_blanks) + 1 - begin);
    if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; }))
        return Error(Errc::invalid_field,
                     source +
                         " holds a blank, a control character or one that is not ASCII: no client could "
                         "send such a key");
    if (text.size() < k_shortest)
        return Error(Errc::invalid_field, source + " is shorter than 16 characters; choose a longer key");
    return std::string(text);
}

Result<ApiKey> DataDir::api_key(const char* given) const {
    if (given != nullptr && *given != '\0') {
        auto key = usable_key(given, "ATOLL_API_KEY");
        if (!key)
            return key.error();
        return ApiKey{std::move(*key), true};
    }
    auto kept = read_or_make(api_key_file(), http::new_key());
    if (!kept)
        return kept.error();
    auto key = usable_key(*kept, api_key_file().string());
    if (!key)
        return Error(Errc::storage_failed, key.error().detail() + ", or delete the file to have one made");
    return ApiKey{std::move(*key), false};
}

Result<std::string> DataDir::token_key() const {
    constexpr std::size_t k_length = 3 * base::k_id_length;
    const auto file = path_ / "token-key";
    auto key = read_or_make(file, base::new_id() + base::new_id() + base::new_id());
    if (key && key->size() != k_length)
        return Error(Errc::storage_failed, file.string() + " does not hold a key of " +
                                               std::to_string(k_length) +
                                               " characters; delete it to have a new one made");
    return key;
}

Result<secrets::SecureText> DataDir::secrets_key() const {
    const auto file = path_ / "secrets.key";
    const UniqueFd have(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!have)
        return errno == ENOENT ? make_secrets_key(path_, file)
                               : Result<secrets::SecureText>(storage("cannot read " + file.string(), errno));
    struct stat status {};
    if (::fstat(have.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size != static_cast<off_t>(secrets::k_key_bytes))
        return Error(Errc::storage_failed, file.string() +
                                               " does not hold a key of 32 bytes; restore it, or "
                                               "delete it and put all secrets again");
    if ((status.st_mode & 0077U) != 0)
        return Error(Errc::storage_failed, "others can read " + file.string() + "; run chmod 600 on it");
    auto key = secrets::SecureText::make(secrets::k_key_bytes);
    if (key && ::pread(have.get(), key->data(), key->size(), 0) != static_cast<ssize_t>(key->size()))
        return storage("cannot read " + file.string(), errno);
    return key;
}

}  // namespace atl::app
