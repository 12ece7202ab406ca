// Writes what SQLite's write-ahead log holds back into the database, so that the server's own commits never
// have to (https://sqlite.org/c3ref/wal_checkpoint_v2.html).
#pragma once

#include <string>

namespace atl::helper {

struct CheckpointResult {
    bool done = false;
    int log_frames = 0;      // in the log
    int written_frames = 0;  // of these, written back
    std::string error;
};

/// A passive one, which never makes the server wait and leaves the log's file as long as it is.
CheckpointResult checkpoint(const std::string& database);

/// Has the disk take what the log of `database` holds (fdatasync(2)), under no lock of the database: a
/// checkpoint begins with it, and then has little left to wait for. Returns why not, else nothing.
std::string sync_log(const std::string& database);

}  // namespace atl::helper
