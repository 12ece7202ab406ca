// The server's folder: made with mode 0700, locked against a second server, with the identity of this
// installation and its API key. Layout:
//     lock  instance-id  api-key  keys.json  token-key  secrets.key  atoll.db  node.db  log-marker
//     backup-lock  run/  etc/  masks/  workspaces/  unclaimed/  trash/  orphaned/
// With a file system for the workspaces (fs-guard/workspace_root.hpp), the last four are in disk/.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/secrets/secure_text.hpp"

namespace atl::app {

/// The key of the server's operator.
struct ApiKey {
    std::string text;
    bool is_given = false;  // by ATOLL_API_KEY; else it is kept in the data directory
};

/// A word for the time since the host was started; not empty (random(4), boot_id).
std::string boot_of_host();

/// A key as a client can send it: without blanks, line ends and a byte order mark at its ends, as editors and
/// shells leave them. Errors: invalid_field for one that no client could send (blanks, control characters or
/// other than ASCII inside), or that is shorter than 16 characters; `source` names it.
base::Result<std::string> usable_key(std::string_view text, const std::string& source);

class DataDir {
  public:
    /// Opens or makes the folder and takes its lock for as long as the object lives. Errors: storage_failed,
    /// naming the fault and its fix (not writable, or locked by another server and its pid).
    static base::Result<DataDir> open(const std::filesystem::path& path);

    const std::filesystem::path& path() const noexcept { return path_; }
    /// Identifies the files and groups that this folder's servers leave on the host. It changes only when the
    /// folder is found to be a copy of another one: of another device or inode.
    const std::string& instance_id() const noexcept { return instance_id_; }
    /// The place of the database: a file that replaced it, or its copy in another folder, has another.
    /// Errors: storage_failed where there is none.
    base::Result<std::string> place_of_logs() const;
    /// `given`, the value of ATOLL_API_KEY, which may be null or empty; else the key that is kept here, made
    /// if there is none (http::new_key()), mode 0600. Errors: invalid_field or storage_failed for a short
    /// key.
    base::Result<ApiKey> api_key(const char* given = nullptr) const;

    /// The key that signs stream tokens, made if there is none. Mode 0600. Without it, after a restart, every
    /// token of before is void.
    base::Result<std::string> token_key() const;

    /// The key that seals secrets: 32 random bytes in `secrets.key`, made and synced to the disk if it is not
    /// there, mode 0600. No backup has it. Errors: storage_failed, also for a file of another size or one
    /// that others can read; capacity.
    base::Result<secrets::SecureText> secrets_key() const;

    std::filesystem::path database() const { return database_of(path_); }
    /// The node's store (core/store/node_store.hpp).
    std::filesystem::path node_database() const { return path_ / "node.db"; }
    /// See core/store/log_epoch.hpp.
    std::filesystem::path log_marker() const { return path_ / "log-marker"; }
    std::filesystem::path backup_lock() const { return backup_lock_of(path_); }
    static std::filesystem::path database_of(const std::filesystem::path& folder) {
        return folder / "atoll.db";
    }
    /// See backup_lock.hpp.
    static std::filesystem::path backup_lock_of(const std::filesystem::path& folder) {
        return folder / "backup-lock";
    }
    std::filesystem::path run() const { return path_ / "run"; }
    std::filesystem::path etc() const { return path_ / "etc"; }
    std::filesystem::path masks() const { return path_ / "masks"; }
    std::filesystem::path api_key_file() const { return path_ / "api-key"; }
    /// More keys: made and revoked by `atolld keys`, which takes no lock of a server
    /// (http/access/key_file.hpp).
    static std::filesystem::path keys_file(const std::filesystem::path& folder) {
        return folder / "keys.json";
    }

  private:
    DataDir(std::filesystem::path path, base::UniqueFd lock)
        : path_(std::move(path)), lock_(std::move(lock)) {}

    std::filesystem::path path_;
    base::UniqueFd lock_;
    std::string instance_id_;
};

}  // namespace atl::app
