// A VFS for SQLite (https://sqlite.org/vfs.html) that writes the head of a frame of the write-ahead log and
// its page with one system call, where SQLite makes two: the usual commit is one frame. It also keeps the
// first 5 MiB of the log in memory (resident_pages.hpp). All else is the system's own VFS.
#pragma once

namespace atl::store {

/// The name to open a database with; registered at the first call. The files have the same content as with
/// the default VFS, and other processes may use either VFS. A head is held back only until the next call for
/// its file.
const char* paired_writes_vfs();

}  // namespace atl::store
