// The files of a database as the file system shows them, without SQLite: whether the database has the length
// of its header, and whether its paths still lead to the opened files. Internal to core/store.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "core/base/error.hpp"

namespace atl::store {

/// Checks that the file is as long as its header says (sqlite.org/fileformat2.html, 1.3). A database with a
/// log passes, since the log may hold the rest; so does a missing or empty file. Reads 100 bytes. Errors:
/// storage_failed, with the fault.
base::Result<void> check_length(const std::filesystem::path& database);

/// The database and its write-ahead log, recognised by device and inode (stat(2)).
class OpenedFiles {
  public:
    OpenedFiles() = default;
    explicit OpenedFiles(const std::filesystem::path& database);

    /// The first path that no longer leads to its opened file. A log that appears later counts from then on.
    std::optional<std::filesystem::path> find_missed();

  private:
    using Identity = std::pair<dev_t, ino_t>;
    static std::optional<Identity> identity(const std::filesystem::path& file);

    std::map<std::filesystem::path, std::optional<Identity>> files_;
};

}  // namespace atl::store
