#include "http/access/key_file.hpp"
#include "core/plain/utf8.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/base/ids.hpp"
#include "core/base/json_writer.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/digest.hpp"
#include "core/plain/unique_fd.hpp"
#include "http/access/limit_ceilings.hpp"
#include "http/wire/json_reader.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::UniqueFd;
using sandbox::LimitChanges;

constexpr std::string_view k_key_prefix = "atoll_";
constexpr std::size_t k_ids_per_key = 3;  // of 99 bits or more each
constexpr std::size_t k_key_bytes = k_key_prefix.size() + k_ids_per_key * base::k_id_length;
constexpr std::string_view k_time_form = "dddd-dd-ddTdd:dd:dd.dddZ";
constexpr std::size_t k_digest_digits = 64;

Error storage(const std::string& what, int error_number) {
    return {Errc::storage_failed, base::errno_text(what, error_number)};
}

/// A broken key file has one error code, also where a client's body would have another.
Error invalid(const Error& why) {
    return {Errc::invalid_field, why.detail()};
}

/// True if `text`, which begins as a new_key() does, has its form. No id has a `_`, so texts of this form do
/// not overlap.
bool has_form_of_key(std::string_view text) noexcept {
    for (std::size_t at = k_key_prefix.size(); at < k_key_bytes; at += base::k_id_length) {
        if (!base::is_id(text.substr(at, base::k_id_length)))
            return false;
    }
    return true;
}

bool is_time(std::string_view text) {
    return std::equal(text.begin(), text.end(), k_time_form.begin(), k_time_form.end(),
                      [](char c, char form) { return form == 'd' ? c >= '0' && c <= '9' : c == form; });
}

bool is_digest(std::string_view text) {
    return text.size() == k_digest_digits && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

sandbox::LimitChanges read_ceilings(ObjectReader& key, const Json& value, const std::string& where) {
    ObjectReader reader(value, where + "ceilings.");
    const auto ceilings = read_limit_changes(reader);
    if (auto ok = reader.finish(); ok.has_error())
        key.fail(ok.error());
    return ceilings;
}

Result<ApiKey> read_key(const Json& entry, const std::string& where) {
    ObjectReader reader(entry, where);
    ApiKey key;
    key.id = reader.string("id", base::k_id_length).value_or("");
    key.label = reader.string("label", base::k_max_key_label_bytes).value_or("");
    key.user_id = reader.string("userId", base::k_max_user_id_bytes);
    key.created_at = reader.string("createdAt", k_time_form.size()).value_or("");
    key.digest = reader.string("sha256", k_digest_digits).value_or("");
    if (const Json* ceilings = reader.object("ceilings"))
        key.ceilings = read_ceilings(reader, *ceilings, where);
    if (!base::is_id(key.id))
        reader.fail("id", "an id");
    if (!is_key_text(key.label, base::k_max_key_label_bytes))
        reader.fail("label", "text without control characters");
    if (key.user_id && !is_key_text(*key.user_id, base::k_max_user_id_bytes))
        reader.fail("userId", "text without control characters");
    if (!is_time(key.created_at))
        reader.fail("createdAt", "a time");
    if (!is_digest(key.digest))
        reader.fail("sha256", "a SHA-256 in hexadecimal");
    if (auto ok = reader.finish(); ok.has_error())
        return invalid(ok.error());
    return key;
}

bool has_repeats(const std::vector<ApiKey>& keys) {
    std::vector<std::string_view> seen;
    seen.reserve(2 * keys.size());
    for (const ApiKey& key : keys) {
        seen.push_back(key.id);
        seen.push_back(key.digest);
    }
    std::sort(seen.begin(), seen.end());
    return std::adjacent_find(seen.begin(), seen.end()) != seen.end();
}

bool same_file(const struct stat& a, const struct stat& b) noexcept {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
           a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
           a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

/// The whole of an open file of at most the bound.
Result<std::string> read_whole(int fd, const std::string& name) {
    std::string text;
    std::array<char, 16384> buffer{};
    while (true) {
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0)
            return storage("cannot read " + name, errno);
        if (got == 0)
            return text;
        text.append(buffer.data(), static_cast<std::size_t>(got));
        if (text.size() > base::k_max_key_file_bytes)
            return Error(Errc::invalid_field,
                         name + " is larger than " + std::to_string(base::k_max_key_file_bytes) + " bytes");
    }
}

/// The keys of the file; `status` gets its metadata, all zero if the file does not exist.
Result<std::vector<ApiKey>> load(const std::filesystem::path& path, struct stat& status) {
    const std::string name = path.string();
    status = {};
    // Not blocking: a FIFO must not hold up the open (fifo(7)).
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd && errno == ENOENT)
        return std::vector<ApiKey>();
    if (!fd || ::fstat(fd.get(), &status) != 0)
        return storage("cannot open " + name, errno);
    if (!S_ISREG(status.st_mode))
        return Error(Errc::invalid_field, name + " is no regular file");
    // A process that can write the file can make keys; a process that can read it learns names of users.
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return Error(Errc::invalid_field, name + " is open to other users; set its mode to 0600");
    // Root writes the file for the owner of the folder (replace()), and reads it back.
    struct stat folder {};
    const bool is_servers =
        ::stat(path.parent_path().c_str(), &folder) == 0 && status.st_uid == folder.st_uid;
    if (status.st_uid != 0 && status.st_uid != ::geteuid() && !is_servers)
        return Error(Errc::invalid_field, name + " belongs to another user");
    const auto text = read_whole(fd.get(), name);
    if (text.has_error())
        return text.error();
    auto keys = parse_key_file(*text);
    if (keys.has_error())
        return Error(Errc::invalid_field, name + ": " + keys.error().detail());
    return keys;
}

Result<void> write_whole(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t wrote = ::write(fd, text.data(), text.size());
        if (wrote < 0)
            return storage("cannot write the keys", errno);
        text.remove_prefix(static_cast<std::size_t>(wrote));
    }
    return {};
}

/// Puts `text` in the place of the file: whole or not at all, also after a loss of power.
Result<void> replace(const std::filesystem::path& path, int folder, const std::string& text) {
    struct stat owner {};
    const std::string temporary = path.string() + ".new";
    ::unlink(temporary.c_str());  // of a change that was killed
    const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd || ::fstat(folder, &owner) != 0)
        return storage("cannot write " + temporary, errno);
    // An operator with root rights may change the keys of a server without them.
    if (::geteuid() == 0 && ::fchown(fd.get(), owner.st_uid, owner.st_gid) != 0)
        return storage("cannot give " + temporary + " to its server", errno);
    if (auto wrote = write_whole(fd.get(), text); wrote.has_error())
        return wrote;
    if (::fsync(fd.get()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0 || ::fsync(folder) != 0)
        return storage("cannot write " + path.string(), errno);
    return {};
}

// Nothing where there are none, as in files of older servers, which know no ceilings.
void write_key_ceilings(base::JsonWriter& json, const sandbox::LimitChanges& ceilings) {
    if (ceilings == sandbox::LimitChanges{})
        return;
    json.key("ceilings").begin_object();
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
        if (const auto ceiling = ceilings.*limit.change)
            json.key(limit.api).number(*ceiling);
    }
    json.end_object();
}

}  // namespace

bool is_key_text(std::string_view text, std::size_t limit_bytes) noexcept {
    constexpr char k_delete = 0x7f;
    return !text.empty() && text.size() <= limit_bytes && base::is_utf8(text) &&
           std::none_of(text.begin(), text.end(),
                        [](char c) { return static_cast<unsigned char>(c) < ' ' || c == k_delete; });
}

Result<std::vector<ApiKey>> parse_key_file(std::string_view text) {
    const auto json = parse_json(text);
    if (json.has_error())
        return Error(Errc::invalid_field, "it is not JSON");
    ObjectReader reader(*json);
    const Json* list = reader.any("keys");
    if (list == nullptr || !list->is_array() || list->size() > base::k_max_api_keys)
        reader.fail("keys", "an array of at most " + std::to_string(base::k_max_api_keys) + " keys");
    if (auto ok = reader.finish(); ok.has_error())
        return invalid(ok.error());
    std::vector<ApiKey> keys;
    for (const Json& entry : *list) {
        auto key = read_key(entry, "keys[" + std::to_string(keys.size()) + "].");
        if (key.has_error())
            return key.error();
        keys.push_back(std::move(*key));
    }
    if (has_repeats(keys))
        return Error(Errc::invalid_field, "an id or a digest comes twice");
    return keys;
}

std::string key_file_text(const std::vector<ApiKey>& keys) {
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("keys").begin_array();
    for (const ApiKey& key : keys) {
        json.begin_object();
        json.key("id").string(key.id);
        json.key("label").string(key.label);
        if (key.user_id)
            json.key("userId").string(*key.user_id);
        json.key("createdAt").string(key.created_at);
        json.key("sha256").string(key.digest);
        write_key_ceilings(json, key.ceilings);
        json.end_object();
    }
    json.end_array().end_object();
    return out + '\n';
}

std::string key_digest(std::string_view key) {
    return conversation::digest(key);
}

std::string new_key() {
    std::string key(k_key_prefix);
    for (std::size_t i = 0; i < k_ids_per_key; ++i)
        key += base::new_id();
    return key;
}

Result<void> KeyFile::read() {
    keys_.clear();
    auto keys = load(path_, seen_);
    if (keys.has_error())
        return keys.error();
    keys_ = std::move(*keys);
    std::ranges::sort(keys_, {}, &ApiKey::digest);
    return {};
}

Result<void> KeyFile::refresh() {
    struct stat now {};
    if (::lstat(path_.c_str(), &now) != 0) {
        const int reason = errno;
        seen_ = {};
        keys_.clear();
        if (reason == ENOENT)
            return {};
        return storage("cannot look for " + path_.string(), reason);
    }
    if (same_file(now, seen_))
        return {};
    auto result = read();
    // A malformed file is not read again before it changes; after a failed read the file is tried again.
    const bool settled = !result.has_error() || result.error().code() == Errc::invalid_field;
    seen_ = {};
    if (settled)
        seen_ = now;
    return result;
}

void KeyFile::look_again() {
    const auto fresh = refresh();
    if (fresh.has_error() && !failing_)
        base::LogLine(base::evt::keys_refused).quoted("err", fresh.error().detail()).error();
    failing_ = fresh.has_error();
}

std::optional<Principal> KeyFile::find(std::string_view key) {
    look_again();
    const std::string digest = key_digest(key);
    const ApiKey* found = nullptr;
    // All of them, each in constant time (CRYPTO_memcmp(3)): how long it takes tells nothing of any key.
    for (const ApiKey& candidate : keys_) {
        if (CRYPTO_memcmp(candidate.digest.data(), digest.data(), k_digest_digits) == 0)
            found = &candidate;
    }
    if (found == nullptr)
        return std::nullopt;
    Principal principal;
    principal.label = found->label;
    principal.user_id = found->user_id;
    principal.limit_key = found->id;
    principal.ceilings = found->ceilings;
    return principal;
}

// A hostile text is full of what could be keys, so each is searched for in the sorted digests. The time tells
// no more than how much of a digest fits, which leads to no key.
bool KeyFile::is_in(std::string_view text) {
    bool has_looked = false;
    for (auto at = text.find(k_key_prefix); at != std::string_view::npos && text.size() - at >= k_key_bytes;
         at = text.find(k_key_prefix, at + 1)) {
        const std::string_view key = text.substr(at, k_key_bytes);
        if (!has_form_of_key(key))
            continue;
        if (!std::exchange(has_looked, true))
            look_again();
        if (std::ranges::binary_search(keys_, key_digest(key), {}, &ApiKey::digest))
            return true;
    }
    return false;
}

Result<std::vector<ApiKey>> read_key_file(const std::filesystem::path& path) {
    struct stat ignored {};
    return load(path, ignored);
}

Result<void> change_key_file(const std::filesystem::path& path, const KeyChange& change) {
    const std::string folder_name = path.parent_path().string();
    const UniqueFd folder(::open(folder_name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder)
        return storage("cannot open " + folder_name, errno);
    // Locks the folder itself: the file is replaced, so a lock on it could be on an old file.
    if (::flock(folder.get(), LOCK_EX) != 0)
        return storage("cannot lock " + folder_name, errno);
    auto keys = read_key_file(path);
    if (keys.has_error())
        return keys.error();
    if (auto changed = change(*keys); changed.has_error())
        return changed;
    const std::string text = key_file_text(*keys);
    if (auto sound = parse_key_file(text); sound.has_error())
        return sound.error();
    return replace(path, folder.get(), text);
}

}  // namespace atl::http
