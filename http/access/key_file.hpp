// API keys in a file of the data directory: each entry names the holder and has only a digest of the key.
// `atolld keys` changes the file while a server runs: it is replaced as a whole, under a lock, and a server
// checks for a new file at each key look-up. A file that does not have the documented form has no valid key
// at all.
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

/// The stored part of a key.
struct ApiKey {
    std::string id;
    std::string label;                   // visible text of its maker
    std::optional<std::string> user_id;  // set: for this user's conversations only
    std::string created_at;              // RFC 3339
    std::string digest;                  // key_digest() of the key
    sandbox::LimitChanges ceilings{};    // of the sandboxes that it asks for

    bool operator==(const ApiKey&) const = default;
};

/// `{"keys": [{id, label, userId?, createdAt, sha256, ceilings?: {memoryMb?, …}}]}`. Errors: invalid_field,
/// naming the fault: the form, a field, a duplicate id or digest, too many keys.
base::Result<std::vector<ApiKey>> parse_key_file(std::string_view text);
std::string key_file_text(const std::vector<ApiKey>& keys);

/// The digest that is stored instead of the key: SHA-256 in hexadecimal. A key is 256 random bits or more and
/// cannot be guessed, so a slow password hash would only slow every request.
std::string key_digest(std::string_view key);

/// A new key: more than 256 bits of getrandom(2), and a prefix by which a leaked key is recognised.
std::string new_key();

/// Looks up keys in the file for a server.
class KeyFile final : public KeyStore {
  public:
    /// The file need not exist. Reads nothing yet.
    explicit KeyFile(std::filesystem::path path) : path_(std::move(path)) {}

    /// Checks with one stat(2) whether the file was replaced, and then reads it. A refused file is logged
    /// once and holds no keys. So a key that was added or revoked counts from the next request on.
    std::optional<Principal> find(std::string_view key) override;
    /// Sees keys of the form of new_key() alone: of others only digests are known. Looks at the file once,
    /// and only where the text has something of that form.
    bool is_in(std::string_view text) override;

    /// Rereads the file without a look-up. Errors: storage_failed, invalid_field, with the fault of the file.
    base::Result<void> refresh();

  private:
    base::Result<void> read();
    void look_again();

    std::filesystem::path path_;
    struct stat seen_ {};       // of the file that keys_ came from; all zero: none
    std::vector<ApiKey> keys_;  // by digest
    bool failing_ = false;      // and that was logged
};

/// Reads the file, lets `change` edit its keys, and replaces it as a whole, mode 0600, with the owner of the
/// folder. Changes exclude each other; a reader sees the old file or the new file. If `change` fails, nothing
/// changes. Errors: those of `change`; storage_failed, invalid_field.
using KeyChange = std::function<base::Result<void>(std::vector<ApiKey>& keys)>;
base::Result<void> change_key_file(const std::filesystem::path& path, const KeyChange& change);

/// The keys of the file, none if it is not there. Errors: storage_failed, invalid_field.
base::Result<std::vector<ApiKey>> read_key_file(const std::filesystem::path& path);

/// True if `text` may be a label or the user of a key: 1 to `limit_bytes` of UTF-8 without control
/// characters.
bool is_key_text(std::string_view text, std::size_t limit_bytes) noexcept;

}  // namespace atl::http
