#include "bridge/guest/files/watched_tree.hpp"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bridge/guest/files/new_file.hpp"
#include "core/plain/json_text.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/plain/path_text.hpp"

namespace atl::guest {
namespace {

constexpr int k_no_node = -1;
constexpr std::size_t k_watched_names_at_once = 256;
constexpr std::size_t k_event_bytes = 16UL * 1024;
constexpr int k_reads_at_once = 4;
// Events of moves whose other half has not come.
constexpr std::size_t k_most_moves = 1024;
constexpr std::uint32_t k_events =
    IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK;

std::string_view word(ChangeLines::Kind kind) {
    static constexpr std::array<std::string_view, 5> k_words = {"created", "modified", "attributes",
                                                                "deleted", "renamed"};
    return k_words[static_cast<std::size_t>(kind)];
}

/// True if the entry is a directory; a link to a directory is none.
bool is_watched_directory(int folder, const dirent& entry) {
    if (entry.d_type != DT_UNKNOWN)
        return entry.d_type == DT_DIR;
    struct stat about {};
    return fstatat(folder, entry.d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
}

}  // namespace

void ChangeLines::add(Kind kind, Thing thing, const std::string& path, const std::string& to) {
    if (const auto last = last_.find(path);
        last != last_.end() && last->second == kind && kind != Kind::renamed)
        return;
    last_[path] = kind;
    text_.append("{\"change\":\"").append(word(kind)).append("\",\"path\":");
    base::append_json_string(text_, base::path_text(path));
    if (!to.empty()) {
        last_[to] = kind;
        text_ += ",\"to\":";
        base::append_json_string(text_, base::path_text(to));
    }
    text_.append(",\"directory\":").append(thing == Thing::directory ? "true" : "false").append("}\n");
}

std::string ChangeLines::take() {
    last_.clear();
    return std::exchange(text_, {});
}

bool WatchedTree::begin() {
    inotify_.reset();  // before another one is asked for: there are few
    nodes_.clear();
    waiting_.assign(1, {k_no_node, {}});
    reading_.reset();
    moves_.clear();
    static_cast<void>(changes_.take());
    uncovered_ = 0;
    is_first_round_ = true;
    lost_ = false;
    inotify_.reset(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    return static_cast<bool>(inotify_);
}

/// Nothing: it is not in the tree any more, or too long for a path.
std::optional<std::string> WatchedTree::path_of(int parent, const std::string& name) const {
    std::string path = name;
    for (int at = parent; at != k_no_node;) {
        const auto node = nodes_.find(at);
        if (node == nodes_.end() || path.size() > base::k_max_path_bytes)
            return std::nullopt;
        if (node->second.parent != k_no_node)
            path = node->second.name + '/' + path;
        at = node->second.parent;
    }
    return path.size() > base::k_max_path_bytes ? std::nullopt : std::optional(std::move(path));
}

/// True if `node` is `parent` or above it.
bool WatchedTree::is_within(int node, int parent) const {
    for (int at = parent; at != k_no_node;) {
        if (at == node)
            return true;
        const auto found = nodes_.find(at);
        at = found == nodes_.end() ? k_no_node : found->second.parent;
    }
    return false;
}

int WatchedTree::child(int parent, const std::string& name) const {
    const auto node = nodes_.find(parent);
    if (node == nodes_.end())
        return k_no_node;
    const auto found = node->second.children.find(name);
    return found == node->second.children.end() ? k_no_node : found->second;
}

/// A directory that is not watched yet.
void WatchedTree::expect(int parent, const std::string& name) {
    if (nodes_.size() + waiting_.size() >= most_)
        ++uncovered_;
    else
        waiting_.push_back({parent, name});
}

bool WatchedTree::step() {
    if (reading_)
        read_some();
    else if (!waiting_.empty())
        open_next();
    const bool has_more = reading_ || !waiting_.empty();
    is_first_round_ = is_first_round_ && has_more;
    return has_more;
}

// Watched first, then read: what is made in between is found twice rather than never.
void WatchedTree::open_next() {
    const Found found = std::move(waiting_.back());
    waiting_.pop_back();
    const auto path = path_of(found.parent, found.name);
    if (!path)
        return;
    base::UniqueFd fd = root_.open(*path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!fd) {
        const bool is_gone = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
        uncovered_ += is_gone ? 0 : 1;
        return;
    }
    // inotify_add_watch(2) takes a path: this one leads to what was opened, even if a program swaps names.
    const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
    const int watch = inotify_add_watch(inotify_.get(), link.c_str(), k_events);
    if (watch < 0) {
        ++uncovered_;
        return;
    }
    place(watch, found);
    reading_ = read_folder(std::move(fd));
    reading_watch_ = watch;
}

/// Its place in the tree is there. A directory has one watch wherever it is: it may have moved since.
void WatchedTree::place(int watch, const Found& found) {
    if (is_within(watch, found.parent))
        return;
    unlink(watch);
    Node& node = nodes_[watch];
    node.parent = found.parent;
    node.name = found.name;
    if (found.parent != k_no_node)
        nodes_[found.parent].children[found.name] = watch;
}

/// From the directory that it is in.
void WatchedTree::unlink(int watch) {
    const auto node = nodes_.find(watch);
    if (node == nodes_.end() || node->second.parent == k_no_node)
        return;
    const auto parent = nodes_.find(node->second.parent);
    if (parent != nodes_.end() && child(parent->first, node->second.name) == watch)
        parent->second.children.erase(node->second.name);
}

/// Forgets the directory and all directories below it.
void WatchedTree::forget(int watch) {
    unlink(watch);
    std::vector<int> going{watch};
    while (!going.empty()) {
        const auto node = nodes_.extract(going.back());
        going.pop_back();
        if (node.empty())
            continue;
        inotify_rm_watch(inotify_.get(), node.key());
        for (const auto& [name, below] : node.mapped().children)
            going.push_back(below);
    }
}

void WatchedTree::read_some() {
    DIR* const folder = reading_.get();
    for (std::size_t names = 0; names < k_watched_names_at_once; ++names) {
        const dirent* const entry = readdir(folder);
        if (entry == nullptr)
            return reading_.reset();
        const std::string name = entry->d_name;
        if (name == "." || name == ".." || is_hidden_name(name))
            continue;
        const bool is_folder = is_watched_directory(dirfd(folder), *entry);
        if (!is_first_round_)
            appeared(reading_watch_, name, is_folder ? Thing::directory : Thing::file);
        else if (is_folder)
            expect(reading_watch_, name);
    }
}

void WatchedTree::appeared(int parent, const std::string& name, Thing thing) {
    if (const auto path = path_of(parent, name))
        changes_.add(Kind::created, thing, *path);
    if (thing == Thing::directory && child(parent, name) == k_no_node)
        expect(parent, name);
}

void WatchedTree::read_events() {
    for (Move& move : moves_)
        move.has_waited = true;
    alignas(inotify_event) std::array<char, k_event_bytes> buffer;
    for (int reads = 0; reads < k_reads_at_once && !lost_; ++reads) {
        const ssize_t size = read(inotify_.get(), buffer.data(), buffer.size());
        if (size <= 0)
            break;
        for (ssize_t at = 0; at < size;) {
            const auto& event = *reinterpret_cast<const inotify_event*>(buffer.data() + at);
            at += static_cast<ssize_t>(sizeof event + event.len);
            on_event(event);
        }
    }
    std::erase_if(moves_, [this](const Move& move) {
        if (move.has_waited)
            end_move(move);
        return move.has_waited;
    });
}

void WatchedTree::on_event(const inotify_event& event) {
    if ((event.mask & IN_Q_OVERFLOW) != 0)
        lost_ = true;
    else if ((event.mask & IN_IGNORED) != 0)
        forget(event.wd);
    if (event.len == 0 || !nodes_.contains(event.wd))
        return;
    const std::string name = event.name;
    if ((event.mask & IN_MOVED_FROM) != 0)
        return on_moved_from(event, name);
    if (is_hidden_name(name))
        return;
    if ((event.mask & IN_MOVED_TO) != 0)
        return on_moved_to(event, name);
    const Thing thing = (event.mask & IN_ISDIR) != 0 ? Thing::directory : Thing::file;
    if ((event.mask & IN_CREATE) != 0)
        return appeared(event.wd, name, thing);
    const auto path = path_of(event.wd, name);
    if (!path)
        return;
    if ((event.mask & IN_MODIFY) != 0)
        changes_.add(Kind::modified, thing, *path);
    else if ((event.mask & IN_ATTRIB) != 0)
        changes_.add(Kind::attributes, thing, *path);
    else if ((event.mask & IN_DELETE) != 0)
        changes_.add(Kind::deleted, thing, *path);
}

void WatchedTree::on_moved_from(const inotify_event& event, const std::string& name) {
    Move move{event.cookie, {event.wd, name}, path_of(event.wd, name), Thing::file};
    if ((event.mask & IN_ISDIR) != 0)
        move.thing = Thing::directory;
    if (is_hidden_name(name))
        move.path.reset();
    if (moves_.size() == k_most_moves)
        return end_move(move);
    moves_.push_back(std::move(move));
}

void WatchedTree::on_moved_to(const inotify_event& event, const std::string& name) {
    const auto move =
        std::ranges::find_if(moves_, [&](const Move& other) { return other.cookie == event.cookie; });
    const Thing thing = (event.mask & IN_ISDIR) != 0 ? Thing::directory : Thing::file;
    if (move == moves_.end())
        return appeared(event.wd, name, thing);
    const Found from = move->from;
    const std::optional<std::string> old_path = std::move(move->path);
    moves_.erase(move);
    if (!old_path)
        return appeared(event.wd, name, thing);
    if (const auto path = path_of(event.wd, name))
        changes_.add(Kind::renamed, thing, *old_path, *path);
    if (thing == Thing::file)
        return;
    const int moved = child(from.parent, from.name);
    if (moved == k_no_node)
        expect(event.wd, name);
    else
        place(moved, {event.wd, name});
}

/// It went where nobody watches.
void WatchedTree::end_move(const Move& move) {
    if (move.path)
        changes_.add(Kind::renamed, move.thing, *move.path);
    const int moved = child(move.from.parent, move.from.name);
    if (move.thing == Thing::directory && moved != k_no_node)
        forget(moved);
}

}  // namespace atl::guest
