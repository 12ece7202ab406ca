// Removes a folder with hostile content: any depth, any number of entries, any names, folders without
// permissions, symlinks (never followed), mounts (never entered). Bounds: at most k_max_open_levels
// descriptors and as many directory buffers; deeper folders are first moved up to the top of the tree, so
// neither depth nor size costs memory or stack. Precondition: no process changes the tree meanwhile. If one
// does, still nothing outside of the tree is touched. Works in steps: the helper reports between them, the
// program inside a sandbox yields.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace atl::base {

inline constexpr std::size_t k_max_open_levels = 32;

class TreeRemover {
  public:
    TreeRemover() = default;
    ~TreeRemover();
    TreeRemover(const TreeRemover&) = delete;
    TreeRemover& operator=(const TreeRemover&) = delete;

    /// Begins with `path`, relative to the working directory and without "..", or with `name` in the open
    /// `folder`. Something that is no folder is gone at once. Once.
    void begin(const std::string& path);
    void begin(int folder, const std::string& name);
    /// Goes on for about so many entries. False: there is nothing left to do.
    bool step(std::size_t entries);
    /// The reason why the first remaining entry could not be removed; empty: none remains. It is no error
    /// that there was nothing.
    const std::string& error() const noexcept { return error_; }
    /// The same as errno(3); 0: none.
    int error_number() const noexcept { return error_number_; }
    std::uint64_t removed() const noexcept { return removed_; }

  private:
    struct Level {
        DIR* stream;
        std::string name;         // in the folder above
        bool progressed = false;  // since the stream's start
    };

    void begin_with(const char* name);
    void next_entry();
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
    int error_number_ = 0;
};

}  // namespace atl::base
