// The readers of the files of a workspace. All readers of a sandbox share a watch inside its living
// generation. A watch holds no lease and is no activity: it begins when a generation is up, whatever brought
// that up, and ends with it. Single-threaded.
//
// Invariants: after `started` or `rescan` a reader is told every change, until the next `paused` or `rescan`;
// a slow reader loses changes and is told so, and holds up neither others nor the sandbox.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/base/clock.hpp"
#include "core/sandbox/file_changes.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {
class Manager;
}  // namespace atl::sandbox

namespace atl::conversation {

class FileWatches;
class WatchedSandbox;

/// A note that a reader gets.
struct WatchNote {
    enum class Kind : std::uint8_t {
        started,    // all that changes from now on is told
        changes,    // in their order
        rescan,     // changes may have been lost; all that changes from now on is told
        uncovered,  // what changes in some directories is not told
        paused,     // the sandbox does not run
        ended,      // last
    };

    Kind kind = Kind::started;
    std::shared_ptr<const sandbox::FileChanges> changes{};
    std::uint64_t directories = 0;  // for `uncovered`
    base::Error why{};              // for `ended`
    std::size_t bytes = 0;          // the approximate size of the changes
};

/// A reader. Its destruction ends it.
class FileWatch {
  public:
    FileWatch(std::shared_ptr<FileWatches*> owner, std::string sandbox_id)
        : owner_(std::move(owner)), sandbox_id_(std::move(sandbox_id)) {}
    ~FileWatch();
    FileWatch(const FileWatch&) = delete;
    FileWatch& operator=(const FileWatch&) = delete;

    /// The next note. Where there is none, on_wake() tells of the next one.
    std::optional<WatchNote> next();
    /// `wake` is called when there is more to read. It must only set something off.
    void on_wake(std::function<void()> wake);

    /// Called by the sandbox that is watched, which wakes the reader afterwards.
    void wake() {
        if (wake_ && !notes_.empty())
            wake_();
    }
    void push(WatchNote note);
    void watching();
    void paused();

  private:
    bool is_too_slow(const WatchNote& note) const noexcept;
    void drop_changes();

    std::shared_ptr<FileWatches*> owner_;  // null inside once it is destroyed
    std::string sandbox_id_;
    std::deque<WatchNote> notes_;
    std::size_t waiting_changes_ = 0;
    std::size_t waiting_bytes_ = 0;
    bool has_started_ = false;
    bool is_paused_ = false;
    std::function<void()> wake_;
};

class FileWatches {
  public:
    /// Says what happens to readers when a generation ends.
    enum class AtEnd : std::uint8_t { waits_for_next, ends };

    FileWatches(base::Timers& timers, sandbox::Manager& sandboxes);
    ~FileWatches();
    FileWatches(const FileWatches&) = delete;
    FileWatches& operator=(const FileWatches&) = delete;

    std::unique_ptr<FileWatch> follow(const std::string& sandbox_id, AtEnd at_end);
    void on_status(const std::string& sandbox_id, sandbox::Status status);
    void on_removed(const std::string& sandbox_id);

    /// The number of sandboxes with readers.
    std::size_t size() const noexcept { return watched_.size(); }

  private:
    friend class FileWatch;
    void leave(const std::string& sandbox_id, FileWatch& reader);

    base::Timers& timers_;
    sandbox::Manager& sandboxes_;
    std::unordered_map<std::string, std::unique_ptr<WatchedSandbox>> watched_;
    std::shared_ptr<FileWatches*> self_;  // null inside once it is destroyed
};

}  // namespace atl::conversation
