// Measures the size of a folder with hostile content: any depth, any number of entries, any names, sparse
// files, hard links, FIFOs, devices, symlinks (never followed), mounts (never entered), and changes
// meanwhile. Bounds: TreeBounds; k_max_open_folders descriptors; names of at most one read of the folder a
// level. Beyond the bounds the walk ends with is_too_large(). Its cost is linear in entries, at any depth.
// A folder that was closed for want of descriptors is found again through "..", and its inode is checked. If
// a move makes that impossible, the rest of the walk is skipped and is_complete() is false. Not counted,
// since no name leads there: deleted files that are still open.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace atl::helper {

inline constexpr std::size_t k_max_open_folders = 256;

/// The largest tree that is measured. A sandbox with a larger one is ended: nothing would hold it to its
/// limit.
struct TreeBounds {
    std::uint64_t entries = 1'000'000;  // counted a read of a folder at a time, some hundred names
    std::size_t levels = 2'048;
    std::chrono::nanoseconds processor_time = std::chrono::seconds(2);  // without the waits for the disk
};

class TreeMeter {
  public:
    explicit TreeMeter(TreeBounds bounds = {}) : bounds_(bounds) {}
    ~TreeMeter();
    TreeMeter(const TreeMeter&) = delete;
    TreeMeter& operator=(const TreeMeter&) = delete;

    /// Walks `path`, relative to the working directory and without "..". False if it cannot be opened:
    /// error() says why.
    bool measure(const std::string& path);

    /// Allocated on the disk, also for folders. A file with several names counts with an equal share for each
    /// name, so all its names together count once.
    std::uint64_t bytes() const noexcept { return bytes_; }
    std::uint64_t inodes() const noexcept { return inodes_; }
    /// False if a folder could not be read to its end.
    bool is_complete() const noexcept { return complete_; }
    /// True if the walk ended at a bound; then it is not complete either.
    bool is_too_large() const noexcept { return too_large_; }
    const std::string& error() const noexcept { return error_; }

  private:
    struct Level {
        int fd = -1;  // closed while many deeper ones are open
        dev_t device = 0;
        ino_t inode = 0;
        off_t position = 0;              // where the next read begins
        std::vector<std::string> below;  // folders of the last read that are still to be walked
        bool at_end = false;
    };

    void work_off();
    bool is_within_bounds() const;
    bool read_more(Level& level);
    void take_entry(Level& level, const char* name, unsigned char type);
    void count(const struct stat& status);
    void descend(int folder, const std::string& name);
    bool push(int fd);
    void close_highest();
    void leave();
    void drop_levels();

    TreeBounds bounds_;
    std::chrono::nanoseconds began_at_{0};
    std::vector<Level> levels_;
    std::size_t open_ = 0;  // the deepest levels, without a gap
    std::uint64_t bytes_ = 0;
    std::uint64_t inodes_ = 0;
    bool complete_ = true;
    bool too_large_ = false;
    std::string error_;
};

}  // namespace atl::helper
