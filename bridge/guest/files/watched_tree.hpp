// The directories of a workspace under one inotify(7) instance, and what their events mean. A directory that
// appears is watched, and what was made in it before that is found by reading it. Links are never followed.
// If the kernel dropped events (a full queue), the tree is lost: it has to begin again. Each call does one
// piece of work; nothing waits. Not here: who is told, and when (watch_files.cpp).
#pragma once

#include <sys/inotify.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bridge/guest/files/folder.hpp"
#include "core/plain/beneath.hpp"

namespace atl::guest {

/// Changes as lines of JSON, in their order. The same change of a file is told once, unless another one of it
/// came in between.
class ChangeLines {
  public:
    enum class Kind : std::uint8_t { created, modified, attributes, deleted, renamed };
    enum class Thing : std::uint8_t { file, directory };

    /// Paths are bytes. `to` is the new path of a thing that was renamed within the workspace.
    void add(Kind kind, Thing thing, const std::string& path, const std::string& to = {});
    const std::string& text() const noexcept { return text_; }
    std::string take();

  private:
    std::string text_;
    std::unordered_map<std::string, Kind> last_;
};

class WatchedTree {
  public:
    /// Watches at most so many directories of `root`, which must outlive this.
    WatchedTree(const base::Beneath& root, std::size_t most) : root_(root), most_(most) {}

    /// Forgets everything and begins with the root. False, and errno: there is no inotify instance left.
    bool begin();
    int fd() const noexcept { return inotify_.get(); }
    /// Watches another directory or reads a piece of one. False once none is left. What the first round finds
    /// is not told.
    bool step();
    /// Takes in some of the events that wait.
    void read_events();
    /// Something was moved, and where to is not known yet: read_events() again in a moment.
    bool has_open_moves() const noexcept { return !moves_.empty(); }
    bool is_lost() const noexcept { return lost_; }

    std::size_t directories() const noexcept { return nodes_.size(); }
    /// Directories that could not be watched: too many, or not readable.
    std::uint64_t uncovered() const noexcept { return uncovered_; }
    ChangeLines& changes() noexcept { return changes_; }

  private:
    using Kind = ChangeLines::Kind;
    using Thing = ChangeLines::Thing;
    enum class Told : std::uint8_t { no, yes };

    struct Node {
        int parent;
        std::string name;
        std::map<std::string, int> children;
    };
    struct Found {
        int parent;
        std::string name;
    };
    struct Move {
        std::uint32_t cookie;
        Found from;
        std::optional<std::string> path;  // nothing: of the guest's own names
        Thing thing;
        bool has_waited = false;
    };

    std::optional<std::string> path_of(int parent, const std::string& name) const;
    bool is_within(int node, int parent) const;
    void expect(int parent, const std::string& name);
    void open_next();
    void place(int watch, const Found& found);
    void read_some();
    void on_event(const inotify_event& event);
    void on_moved_from(const inotify_event& event, const std::string& name);
    void on_moved_to(const inotify_event& event, const std::string& name);
    void appeared(int parent, const std::string& name, Thing thing);
    void end_move(const Move& move);
    int child(int parent, const std::string& name) const;
    void unlink(int watch);
    void forget(int watch);

    const base::Beneath& root_;
    std::size_t most_;
    base::UniqueFd inotify_;
    std::unordered_map<int, Node> nodes_;  // by their watch descriptors
    std::vector<Found> waiting_;           // to be watched and read
    Folder reading_;
    int reading_watch_ = -1;
    std::vector<Move> moves_;
    ChangeLines changes_;
    std::uint64_t uncovered_ = 0;
    bool is_first_round_ = true;
    bool lost_ = false;
};

}  // namespace atl::guest
