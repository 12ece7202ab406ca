// Workspaces without a record. A start of the server moves them to `DATA/orphaned/DATE/NAME` instead of
// removing them. They occur when the database is older than they are, or is another database. Each keeps its
// owner, so its uid may not be handed out while it lies there. Invariants: a workspace moves by one rename,
// whole, and is never written to; an existing name is never overwritten. Not here: when a workspace counts as
// an orphan (workspaces.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::fs_guard {

struct Orphan {
    std::string date;  // YYYY-MM-DD, in UTC, of the start that found it
    std::string name;  // the sandbox's id, if it ever was a sandbox's
    std::uint32_t owner_uid = 0;
};

class Orphans {
  public:
    /// Makes `DATA/orphaned` if it is not there. Errors: storage_failed.
    static base::Result<Orphans> open(const std::filesystem::path& data_dir);

    /// The oldest first.
    std::vector<Orphan> list() const;
    /// Moves `name` out of `folder`, below the date of today. Errors: storage_failed; it then lies where it
    /// lay.
    base::Result<void> take(int folder, const std::string& name) const;
    /// Moves it to `folder` under `new_name`. Errors: storage_failed, also if something of that name is
    /// there.
    base::Result<void> give(const Orphan& orphan, int folder, const std::string& new_name) const;

  private:
    explicit Orphans(std::filesystem::path path, base::UniqueFd folder)
        : path_(std::move(path)), folder_(std::move(folder)) {}

    std::filesystem::path path_;
    base::UniqueFd folder_;
};

/// How many workspaces of `data_dir` were claimed by a conversation or a client, as far as the disk tells;
/// does not need the database.
std::size_t count_claimed_workspaces(const std::filesystem::path& data_dir);

}  // namespace atl::fs_guard
