// Removes a folder with hostile content: any depth, any number of entries, any names, folders without
// permissions, symlinks (never followed), mounts (never entered).
// Bounds: at most k_max_open_levels descriptors and as many directory buffers; deeper folders are first moved
// up to the top of the tree, so neither depth nor size costs memory or stack.
// Precondition: no process changes the tree meanwhile. If one does, still nothing outside of the tree is
// touched.
#pragma once

#include <dirent.h>

#include <cstdint>
#include <string>
#include <vector>

namespace atl::helper {

inline constexpr std::size_t k_max_open_levels = 32;

class TreeRemover {
  public:
    TreeRemover() = default;
    ~TreeRemover();
    TreeRemover(const TreeRemover&) = delete;
    TreeRemover& operator=(const TreeRemover&) = delete;

    /// Removes `path`, relative to the working directory and without "..". True also if it is not there.
    /// Otherwise error() has the reason why the first remaining entry could not be removed.
    bool remove(const std::string& path);
    const std::string& error() const noexcept { return error_; }
    std::uint64_t removed() const noexcept { return removed_; }

  private:
    struct Level {
        DIR* stream;
        std::string name;         // in the folder above
        bool progressed = false;  // since the stream's start
    };

    void work_off();
    void take_entry(const dirent& entry);
    bool unlink_entry(const char* name);
    void descend(const char* name);
    void hoist(const char* name);
    void leave();
    void note_failure(const char* what, int error_number);
    int above() const;
    int top() const { return ::dirfd(levels_.back().stream); }

    int parent_ = -1;  // of the tree's top
    std::vector<Level> levels_;
    std::uint64_t removed_ = 0;
    std::uint64_t random_ = 0;
    std::uint64_t hoisted_ = 0;
    std::string error_;
};

}  // namespace atl::helper
