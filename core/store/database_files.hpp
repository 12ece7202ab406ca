// The files of a database as the file system shows them, without SQLite: whether the database is whole by its
// header, and whether the files are still those that were opened. Internal to core/store.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "core/base/error.hpp"

namespace atl::store {

/// Whether the file is as long as its header says (sqlite.org/fileformat2.html, 1.3); of a database with a
/// log nothing can be said, since the log may hold the rest. A file that is not there, or is empty, is whole.
/// Reads 100 bytes. Errors: storage_failed, with what is wrong.
base::Result<void> check_length(const std::filesystem::path& database);

/// The database and its write-ahead log, recognised by device and inode (stat(2)).
class OpenedFiles {
  public:
    OpenedFiles() = default;
    explicit OpenedFiles(const std::filesystem::path& database);

    /// The first whose path no longer leads to the file that it led to; a log that comes to be later counts
    /// from then on.
    std::optional<std::filesystem::path> find_missed();

  private:
    using Identity = std::pair<dev_t, ino_t>;
    static std::optional<Identity> identity(const std::filesystem::path& file);

    std::map<std::filesystem::path, std::optional<Identity>> files_;
};

}  // namespace atl::store
