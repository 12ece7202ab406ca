#include "app/data_dir.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/base/ids.hpp"

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

/// The content of a one-line file of mode 0600, made with `fresh` if it is not there. The file appears
/// whole or not at all.
Result<std::string> read_or_make(const std::filesystem::path& file, const std::string& fresh) {
    const UniqueFd have(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (have) {
        std::string text = read_small(have.get());
        if (!text.empty())
            return text;
    } else if (errno != ENOENT) {
        return storage("cannot read " + file.string(), errno);
    }
    const std::filesystem::path temporary = file.string() + ".new";
    const UniqueFd made(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    const std::string line = fresh + "\n";
    if (!made || ::write(made.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
        ::fsync(made.get()) != 0 || ::rename(temporary.c_str(), file.c_str()) != 0)
        return storage("cannot write " + file.string(), errno);
    return fresh;
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
        return Error(Errc::storage_failed, "the data directory " + dir.string() +
                                               " is in use by another server" +
                                               (holder.empty() ? "" : " (pid " + holder + ")") +
                                               "; stop that one or choose another with --data-dir");
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
    if (fresh && ::chmod(path.c_str(), 0700) != 0)
        return storage("cannot set the mode of " + path.string(), errno);
    auto lock = take_lock(path);
    if (!lock)
        return lock.error();
    DataDir dir(path, std::move(*lock));
    auto instance = read_or_make(path / "instance-id", base::new_id());
    if (!instance)
        return instance.error();
    if (!base::is_id(*instance))
        return Error(Errc::storage_failed,
                     (path / "instance-id").string() + " does not hold an id; restore it");
    dir.instance_id_ = std::move(*instance);
    for (const auto& folder : {dir.run(), dir.etc()}) {
        if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
            return storage("cannot make " + folder.string(), errno);
    }
    return dir;
}

Result<ApiKey> DataDir::api_key(const char* given) const {
    constexpr std::size_t k_shortest = 16;
    if (given != nullptr && *given != '\0') {
        ApiKey key{given, true};
        if (key.text.size() < k_shortest)
            return Error(Errc::invalid_field,
                         "ATOLL_API_KEY is shorter than 16 characters; choose a longer one");
        return key;
    }
    auto kept = read_or_make(api_key_file(), base::new_id() + base::new_id().substr(0, 12));
    if (!kept)
        return kept.error();
    if (kept->size() < k_shortest)
        return Error(Errc::storage_failed, api_key_file().string() +
                                               " holds a key of less than 16 characters; "
                                               "delete it to have a new one made");
    return ApiKey{std::move(*kept), false};
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

}  // namespace atl::app
