// The epoch of the logs: a word that says which logs a client's cursor is of. Another one begins when the
// logs may not be what clients have seen: a database from a backup or put back alone, a copied or restored
// data directory, even if it was restored over the same files, or a database whose host went down under the
// server (the newest commits may be lost, connection.hpp). A stop and the death of the process keep it.
//
// How a start tells: a mark in the conversations' database and one in the node's store agree. Both have the
// word and a count of starts and stops; the node's also the place of the database and the state of a marker,
// the other one the boot of the host while a server runs. The marker is a small file that each start and stop
// writes: a copy that is put over it, or over the databases and not over it, leaves it with another time of
// change (ctime, inode(7)) than the node's mark tells; no program can choose that time. A snapshot of the
// file system that is rolled back is not told by it. `atolld backup` writes no mark (backup.hpp). Not here:
// cursors (core/conversation/manager.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/store/log_mark.hpp"

namespace atl::store {

class SqliteStore;
class SqliteNodeStore;

/// The facts that a start compares with the marks.
struct EpochPlace {
    std::string place;             // of the database: another one for each copy of it
    std::string boot;              // of the host, not empty
    std::filesystem::path marker;  // of LogEpoch alone; it may be missing
};

/// Why these marks are not of logs that go on; empty: they are. `marker`: the state of here.marker.
std::string_view why_new_epoch(const std::optional<LogMark>& log, const std::optional<NodeMark>& node,
                               const EpochPlace& here, std::string_view marker);

class LogEpoch {
  public:
    /// At a start, before anybody reads a log: goes on with the epoch or begins a new one, which the server's
    /// log tells. It is on the disk when this returns. Both stores outlive the object. Errors:
    /// storage_failed.
    static base::Result<LogEpoch> begin(SqliteStore& logs, SqliteNodeStore& node, EpochPlace here);

    /// k_log_epoch_length small letters and digits.
    const std::string& word() const noexcept { return word_; }

    /// The server has ended: nothing is written to the logs any more. Errors: storage_failed.
    base::Result<void> end();

  private:
    LogEpoch(SqliteStore& logs, SqliteNodeStore& node, EpochPlace here)
        : logs_(&logs), node_(&node), here_(std::move(here)) {}
    base::Result<void> step(const std::string& boot);

    SqliteStore* logs_;
    SqliteNodeStore* node_;
    EpochPlace here_;
    std::string word_;
    std::int64_t count_ = 0;
};

}  // namespace atl::store
