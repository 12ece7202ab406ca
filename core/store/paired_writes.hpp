// A VFS for SQLite (https://sqlite.org/vfs.html) that writes the head of a frame of the write-ahead log and
// its page with one system call, where SQLite makes two: the usual commit is one frame; and that keeps the
// log in memory, its first 5 MiB (resident_pages.hpp). All else is the system's own VFS.
#pragma once

namespace atl::store {

/// The name to open a database with; registered at the first call. Files are as those of the default VFS,
/// other processes may use either. A head is held back only until the next call for its file.
const char* paired_writes_vfs();

}  // namespace atl::store
