// API keys in a file of the data directory: who holds one, and only a digest of the key itself. `atolld keys`
// changes the file while a server runs: it is replaced as a whole, under a lock, and a server looks for
// another file whenever it is asked for a key. What is not of the documented form opens nothing: the keys of
// a broken file are no keys.
// Not here: the key without restrictions (access.hpp), the command line (app/keys_command.hpp).
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "http/access/access.hpp"

namespace atl::http {

/// What is kept of a key.
struct ApiKey {
    std::string id;
    std::string label;                   // visible text of its maker
    std::optional<std::string> user_id;  // set: for this user's conversations only
    std::string created_at;              // RFC 3339
    std::string digest;                  // key_digest() of the key
    LimitChanges ceilings{};             // of the sandboxes that it asks for

    bool operator==(const ApiKey&) const = default;
};

/// `{"keys": [{id, label, userId?, createdAt, sha256, ceilings?: {memoryMb?, …}}]}`. Errors: invalid_field,
/// saying what is wrong: the form, a field, an id or digest that comes twice, too many.
base::Result<std::vector<ApiKey>> parse_key_file(std::string_view text);
std::string key_file_text(const std::vector<ApiKey>& keys);

/// What is kept of a key instead of the key: SHA-256 in hexadecimal. A key is 256 random bits or more: nobody
/// finds it by trying, so the slow functions that protect what people choose would only slow every request.
std::string key_digest(std::string_view key);

/// A new key: more than 256 bits of getrandom(2), and a prefix by which a leaked one is recognised.
std::string new_key();

/// The keys of a file as a server asks for them.
class KeyFile final : public KeyStore {
  public:
    /// The file need not be there. Reads nothing yet.
    explicit KeyFile(std::filesystem::path path) : path_(std::move(path)) {}

    /// Looks whether the file is another one than before (one stat(2)), then reads it. A file that is refused
    /// is logged once and holds no keys. So a key that was added or revoked counts from the next request on.
    std::optional<Principal> find(std::string_view key) override;

    /// The same without a key. Errors: what is wrong with the file; storage_failed, invalid_field.
    base::Result<void> refresh();

  private:
    base::Result<void> read();

    std::filesystem::path path_;
    struct stat seen_ {};  // of the file that keys_ came from; all zero: none
    std::vector<ApiKey> keys_;
    bool failing_ = false;  // and that was logged
};

/// Reads the file, lets `change` edit its keys, and replaces it as a whole, mode 0600, belonging to whom the
/// folder belongs to. Changes exclude each other; a reader sees the old file or the new one. If `change`
/// fails, nothing changes. Errors: those of `change`; storage_failed, invalid_field.
using KeyChange = std::function<base::Result<void>(std::vector<ApiKey>& keys)>;
base::Result<void> change_key_file(const std::filesystem::path& path, const KeyChange& change);

/// The keys of the file, none if it is not there. Errors: storage_failed, invalid_field.
base::Result<std::vector<ApiKey>> read_key_file(const std::filesystem::path& path);

/// What may be a label, or the user of a key: 1 to `limit_bytes` of UTF-8 without control characters.
bool is_key_text(std::string_view text, std::size_t limit_bytes) noexcept;

}  // namespace atl::http
