// The changes that a watch of a workspace tells, in the words of the sandbox: paths are text of bounded
// length, and nothing else about them is certain. The rules of operations.hpp hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace atl::sandbox {

struct FileChange {
    enum class Kind : std::uint8_t {
        created,  // the name is there, also in the place of what had it before
        modified,
        attributes,
        deleted,
        renamed,  // within the workspace to `to`; without it, to where nobody looks
    };
    enum class Thing : std::uint8_t { file, directory };

    Kind kind = Kind::created;
    Thing thing = Thing::file;
    std::string path;  // path text (core/plain/path_text.hpp), relative to the workspace
    std::string to;

    bool operator==(const FileChange&) const = default;
};
using FileChanges = std::vector<FileChange>;

/// The word of the API and of the guest.
std::string_view to_string(FileChange::Kind kind) noexcept;

class WatchObserver {
  public:
    virtual ~WatchObserver() = default;
    /// Every change from now on is told.
    virtual void on_watching() = 0;
    /// In their order. Not empty.
    virtual void on_changes(FileChanges changes) = 0;
    /// Changes were lost; every change from now on is told.
    virtual void on_rescan() = 0;
    /// How many directories are not watched, since there are too many or the sandbox cannot read them.
    virtual void on_uncovered(std::uint64_t directories) = 0;
    /// Last call, in which alone the watch may be destroyed. Before on_watching() the guest refused: capacity
    /// and others; or the watch broke off: bridge_failed, deadline_exceeded.
    virtual void on_failed(const base::Error& error) = 0;
    /// True while no more is wanted; Watch::resume() ends that.
    virtual bool is_full() const { return false; }
};

/// A watch under way. Destroying it ends it, but not inside a callback other than on_failed().
class Watch {
  public:
    virtual ~Watch() = default;
    virtual void resume() = 0;
};

}  // namespace atl::sandbox
