// The size of deleted files that processes still hold: open, mapped, executed, or as a working directory.
// Each inode counts once, however many descriptors lead to it. Every thread is examined, since each may have
// a table of descriptors of its own (unshare(2), CLONE_FILES) and the first thread may have ended before the
// others. The processes may do anything meanwhile without harm; the result is exact only while they stand
// still. Only folders and text files of /proc are opened.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace atl::helper {

/// Deleted files that are remembered; more of them count as out of sight.
inline constexpr std::size_t k_max_held_files = 1024UL * 1024;

class HeldFiles {
  public:
    /// Files of other file systems than `device` (stat(2), st_dev) count for nothing.
    explicit HeldFiles(dev_t device) : device_(device) {}

    /// Adds the deleted files that the process holds; none if the process is gone.
    void add(pid_t pid);

    /// Allocated on the disk.
    std::uint64_t bytes() const noexcept { return bytes_; }
    std::uint64_t inodes() const noexcept { return held_.size(); }
    /// The number of things that could not be examined: descriptors in flight through a socket (unix(7),
    /// SCM_RIGHTS), unreadable descriptor tables, and mapped deleted files where map_files is unreadable
    /// (proc(5): only root may read it).
    std::uint64_t out_of_sight() const noexcept { return out_of_sight_; }
    /// The bytes that the processes, and children that they have waited for, ever wrote (proc(5), io:
    /// write_bytes).
    std::uint64_t written_bytes() const noexcept { return written_bytes_; }

  private:
    void add_task(const std::string& task, bool with_descriptors);
    void add_descriptors(const std::string& task);
    void add_descriptor(int folder, const std::string& task, const char* name);
    /// False if the thread has no memory any more.
    bool add_mappings(const std::string& task, const std::string& tid);
    void add_mapping(const std::string& line, const std::string& tid);
    void take(const struct stat& status);
    void miss(int error_number);

    dev_t device_;
    std::unordered_set<ino_t> held_;
    std::unordered_set<std::string> mapped_;  // device and inode of the mappings that were looked at
    std::uint64_t bytes_ = 0;
    std::uint64_t out_of_sight_ = 0;
    std::uint64_t written_bytes_ = 0;
};

/// `ancestor` and every process below it, by one look at all processes of the host.
std::vector<pid_t> family_of(pid_t ancestor);

}  // namespace atl::helper
