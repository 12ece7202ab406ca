// list_directory: the entries of a directory, directories first, then by name.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "bridge/guest/files/new_file.hpp"
#include "bridge/guest/tools/glob_pattern.hpp"
#include "bridge/guest/tools/tool_run.hpp"
#include "core/plain/inner_paths.hpp"
#include "core/plain/path_text.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_entries_per_turn = 500;

struct Entry {
    std::string name;
    bool is_directory;

    bool operator<(const Entry& other) const {
        return is_directory != other.is_directory ? is_directory : name < other.name;
    }
};

/// The first entries of a directory in their order, however many it has.
class FirstEntries {
  public:
    void add(Entry entry) {
        kept_.push_back(std::move(entry));
        if (kept_.size() >= 2 * base::k_max_tool_entries)
            cut();
    }
    std::vector<Entry> take() {
        std::sort(kept_.begin(), kept_.end());
        if (kept_.size() > base::k_max_tool_entries)
            kept_.erase(kept_.begin() + base::k_max_tool_entries, kept_.end());
        return std::move(kept_);
    }

  private:
    void cut() {
        const auto end = kept_.begin() + base::k_max_tool_entries;
        std::nth_element(kept_.begin(), end, kept_.end());
        kept_.erase(end, kept_.end());
    }

    std::vector<Entry> kept_;
};

struct CloseDirectory {
    void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

Directory open_directory(const Found& found) {
    base::UniqueFd fd = base::Beneath::reopen(found.fd.get(), O_RDONLY | O_DIRECTORY);
    if (!fd)
        return nullptr;
    Directory directory(fdopendir(fd.get()));
    if (directory)
        static_cast<void>(fd.release());
    return directory;
}

/// A link counts as what it leads to beneath the workspace.
bool is_listed_directory(const ToolRun& run, const Found& parent, const dirent& entry) {
    if (entry.d_type == DT_DIR)
        return true;
    if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN)
        return false;
    struct stat state {};
    if (fstatat(parent.fd.get(), entry.d_name, &state, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (!S_ISLNK(state.st_mode))
        return S_ISDIR(state.st_mode);
    const std::string path = (parent.relative.empty() ? "" : parent.relative + "/") + entry.d_name;
    const auto target = run.paths.find(path);
    return target && target->is_directory();
}

Task<bool> async_matches_any(Call& call, GlobWork& work, const std::vector<GlobPattern>& patterns,
                             std::string_view name) {
    for (const GlobPattern& each : patterns) {
        if (work.add(each.cost() * name.size()))
            co_await call.turn();
        if (each.matches(name))
            co_return true;
    }
    co_return false;
}

/// The state of the entry; a link that leads to something beneath the workspace counts as that.
struct stat state_of(const ToolRun& run, const Found& parent, const Entry& entry) {
    struct stat state {};
    static_cast<void>(fstatat(parent.fd.get(), entry.name.c_str(), &state, AT_SYMLINK_NOFOLLOW));
    if (!S_ISLNK(state.st_mode))
        return state;
    const auto target = run.paths.find((parent.relative.empty() ? "" : parent.relative + "/") + entry.name);
    return target ? target->state : state;
}

std::string entry_json(const ToolRun& run, const Found& parent, const Entry& entry) {
    const struct stat state = state_of(run, parent, entry);
    JsonObject json;
    const std::string path = (parent.relative.empty() ? "" : parent.relative + "/") + entry.name;
    json.text("name", base::path_text(entry.name)).text("path", WorkspacePaths::shown(path));
    json.flag("isDirectory", entry.is_directory);
    json.number("size", static_cast<std::uint64_t>(state.st_size));
    json.text("modifiedTime", rfc3339(state.st_mtim));
    return std::move(json).close();
}

}  // namespace

ToolTask async_list(ToolRun& run, const Found& found, const std::vector<std::string>& ignore) {
    std::vector<GlobPattern> ignored;
    for (const std::string& glob : ignore)
        ignored.emplace_back(glob, GlobPattern::Case::differs, GlobPattern::Brackets::either);
    const std::string path = WorkspacePaths::shown(found.relative);
    const Directory directory = open_directory(found);
    if (!directory)
        co_return path_failure(errno, path, "list");
    FirstEntries first;
    GlobWork work;
    std::size_t total = 0;
    std::size_t ignored_count = 0;
    std::size_t seen = 0;
    const Call::Progress progress(run.call, [&seen] { return counted_so_far(seen, "entry"); });
    while (const dirent* entry = readdir(directory.get())) {
        ++seen;
        const std::string_view name = entry->d_name;
        const bool is_state = found.relative.empty() && name == base::k_state_folder;
        if (name == "." || name == ".." || is_state || is_hidden_name(name))
            continue;
        const bool is_ignored = co_await async_matches_any(run.call, work, ignored, name);
        if (is_ignored)
            ++ignored_count;
        else
            ++total, first.add(Entry{std::string(name), is_listed_directory(run, found, *entry)});
        if (seen % k_entries_per_turn == 0)
            co_await run.call.turn();
    }
    const std::vector<Entry> entries = first.take();
    std::string list = "[";
    for (std::size_t i = 0; i < entries.size(); ++i) {
        list += (i > 0 ? "," : "") + entry_json(run, found, entries[i]);
        if (i % k_entries_per_turn == k_entries_per_turn - 1)
            co_await run.call.turn();
    }
    ToolResult result;
    result.data.text("path", path).raw("entries", list + "]").number("count", entries.size());
    result.data.number("totalCount", total).number("ignoredCount", ignored_count);
    result.data.flag("truncated", entries.size() < total);
    if (entries.size() < total)
        result.warnings.push_back("Only the first " + std::to_string(entries.size()) + " of " +
                                  std::to_string(total) + " entries are listed.");
    result.user_feedback = "Listed " + path + " (" + counted(total, "entry") + ").";
    co_return result;
}

ToolTask async_list_directory(ToolRun& run) {
    const std::string given = run.arguments.text("path");
    const std::vector<std::string> ignore = run.arguments.text_list("ignore");
    for (const std::string& glob : ignore)
        if (glob.empty() || glob.size() > base::k_max_glob_bytes)
            co_return ToolResult::failure(base::tool_error::invalid_pattern,
                                          "A glob of `ignore` is empty or has more than " +
                                              std::to_string(base::k_max_glob_bytes) + " bytes.",
                                          "The directory could not be listed.");
    const std::optional<std::string> relative = run.paths.relative(given);
    const std::optional<Found> found = relative ? run.paths.find(*relative) : std::nullopt;
    if (!found)
        co_return path_failure(errno, given, "list");
    if (!found->is_directory())
        co_return path_failure(ENOTDIR, given, "list");
    ToolResult result = co_await async_list(run, *found, ignore);
    co_return result;
}

}  // namespace atl::guest
