// Compares the space that the file system has lost with the sizes that walks have found: the gap is the
// unaccounted rest. It grows with files that are hidden from walks, but also with files that are not walked
// yet or belong to other programs. So only its growth since a workspace was last found honest is evidence.
// Not here: which workspace the growth belongs to (disk_meter.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace atl::fs_guard {

/// The space of the file system that holds the workspaces (statvfs(3)).
struct FreeSpace {
    std::uint64_t total_bytes = 0;
    std::uint64_t free_bytes = 0;    // blocks reserved for root are in neither
    std::uint64_t total_inodes = 0;  // 0: the file system has no bound of its own
    std::uint64_t free_inodes = 0;
    std::uint64_t own_bytes = 0;  // the part of the used bytes that is the server's own: its database
};

/// The space of a file system, of a tree or of a part of a tree.
struct Space {
    std::int64_t bytes = 0;
    std::int64_t inodes = 0;
};

/// The least cost of an inode: half a block, so that a limit of 1 GiB holds half a million files.
inline constexpr std::uint64_t k_least_bytes_an_inode = 2048;

class SpaceLedger {
  public:
    /// Takes the present numbers of the file system.
    void see(const FreeSpace& now) {
        used_.bytes = static_cast<std::int64_t>(now.total_bytes - now.free_bytes - now.own_bytes);
        used_.inodes = static_cast<std::int64_t>(now.total_inodes - now.free_inodes);
    }
    /// Takes the result of a walk; it replaces the result of an earlier walk of that workspace.
    void found(const std::string& id, Space space) {
        forget(id);
        found_[id] = space;
        explained_.bytes += space.bytes;
        explained_.inodes += space.inodes;
    }
    void forget(const std::string& id) {
        const auto node = found_.extract(id);
        if (node.empty())
            return;
        explained_.bytes -= node.mapped().bytes;
        explained_.inodes -= node.mapped().inodes;
    }
    Space gap() const { return {used_.bytes - explained_.bytes, used_.inodes - explained_.inodes}; }

  private:
    Space used_;
    Space explained_;
    std::map<std::string, Space> found_;
};

/// The growth from `then` to `now`, in bytes: each inode counts with its least cost.
std::uint64_t growth_of_gap(Space then, Space now);
/// The lower bytes and the lower inodes of both.
Space lower_of(Space one, Space other);

}  // namespace atl::fs_guard
