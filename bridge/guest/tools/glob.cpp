// glob: files by the pattern of their path, the recently changed first.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bridge/guest/files/new_file.hpp"
#include "bridge/guest/tools/glob_pattern.hpp"
#include "bridge/guest/tools/ripgrep.hpp"
#include "bridge/guest/tools/search_scope.hpp"

namespace atl::guest {
namespace {

using namespace base::tool_error;

constexpr std::int64_t k_recent_ns = std::int64_t{24} * 3600 * 1'000'000'000;
constexpr int k_glob_status_partial = 2;

struct File {
    std::string path;
    std::int64_t modified_ns;  // 0 where it is not recent
};

bool goes_before(const File& one, const File& other) {
    return one.modified_ns != other.modified_ns ? one.modified_ns > other.modified_ns : one.path < other.path;
}

/// The first files in their order, however many there are.
class FirstFiles {
  public:
    void add(File file) {
        ++count_;
        kept_.push_back(std::move(file));
        if (kept_.size() >= 2 * base::k_max_tool_files)
            cut();
    }
    std::size_t count() const noexcept { return count_; }
    std::vector<std::string> take() {
        std::sort(kept_.begin(), kept_.end(), goes_before);
        std::vector<std::string> paths;
        for (File& file : kept_)
            if (paths.size() < base::k_max_tool_files)
                paths.push_back(std::move(file.path));
        return paths;
    }

  private:
    void cut() {
        const auto end = kept_.begin() + base::k_max_tool_files;
        std::nth_element(kept_.begin(), end, kept_.end(), goes_before);
        kept_.erase(end, kept_.end());
    }

    std::vector<File> kept_;
    std::size_t count_ = 0;
};

/// Takes in what ripgrep finds.
class Collector {
  public:
    Collector(const SearchScope& scope, std::string_view glob, GlobPattern::Case letters)
        : scope_(scope),
          as_sets_(glob, letters, GlobPattern::Brackets::set),
          as_either_(glob, letters, GlobPattern::Brackets::either) {
        struct timespec now {};
        clock_gettime(CLOCK_REALTIME, &now);
        recent_since_ns_ = nanoseconds(now) - k_recent_ns;
    }
    /// True if it is time for a turn of others.
    bool add(std::string_view printed) {
        const std::string_view inner = SearchScope::inner(printed);
        ++seen_;
        if (has_hidden_name(inner))
            return false;
        if (as_sets_.matches(inner))
            by_sets_.add(file(printed));
        else if (as_either_.matches(inner))
            literal_.add(file(printed));
        return work_.add(inner.size() * (as_sets_.cost() + as_either_.cost()));
    }
    std::size_t seen() const noexcept { return seen_; }
    /// Where a file has the brackets in its name, they are literal; else they are sets.
    FirstFiles& chosen() { return literal_.count() > 0 ? literal_ : by_sets_; }

  private:
    static std::int64_t nanoseconds(const timespec& time) {
        return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
    }
    File file(std::string_view printed) const {
        const std::string inner(SearchScope::inner(printed));
        struct stat state {};
        std::int64_t modified = 0;
        if (fstatat(scope_.directory.get(), inner.c_str(), &state, AT_SYMLINK_NOFOLLOW) == 0)
            modified = nanoseconds(state.st_mtim);
        return {WorkspacePaths::shown(scope_.whole(printed)), modified >= recent_since_ns_ ? modified : 0};
    }

    const SearchScope& scope_;
    GlobPattern as_sets_;
    GlobPattern as_either_;
    std::int64_t recent_since_ns_ = 0;
    std::size_t seen_ = 0;
    GlobWork work_;
    FirstFiles by_sets_;
    FirstFiles literal_;
};

/// Reads the names that ripgrep prints, each with a NUL behind it.
Task<void> async_collect_names(ToolRun& run, Ripgrep& ripgrep, Collector& collector) {
    const Call::Progress progress(run.call,
                                  [&collector] { return counted_so_far(collector.seen(), "file"); });
    std::string begun;
    for (;;) {
        std::string_view piece = co_await ripgrep.async_read();
        if (piece.empty())
            co_return;
        for (std::size_t end = piece.find('\0'); end != std::string_view::npos; end = piece.find('\0')) {
            begun += piece.substr(0, end);
            piece.remove_prefix(end + 1);
            const bool is_turn = collector.add(begun);
            begun.clear();
            if (is_turn)
                co_await run.call.turn();
        }
        begun += piece;
    }
}

/// `pattern` below `path`: an absolute one is told apart from its directory.
std::optional<ToolResult> read_pattern(const ToolRun& run, std::string& glob, std::string& path) {
    const auto failure = [](std::string problem) {
        return ToolResult::failure(invalid_pattern, problem, "The files could not be found: " + problem);
    };
    if (glob.empty() || glob.size() > base::k_max_glob_bytes)
        return failure("`pattern` is empty or has more than " + std::to_string(base::k_max_glob_bytes) +
                       " bytes.");
    if (glob.find('\0') != std::string::npos)
        return failure("`pattern` holds a NUL character.");
    if (glob == ".." || glob.starts_with("../") || glob.find("/../") != std::string::npos ||
        glob.ends_with("/.."))
        return path_failure(EXDEV, glob, "search");
    if (glob.starts_with('/')) {
        const std::optional<std::string> inside = run.paths.relative_pattern(glob);
        if (!inside || run.arguments.has("path"))
            return inside ? failure("`pattern` is absolute; `path` is given, too.")
                          : path_failure(errno, glob, "search");
        glob = *inside;
        path = ".";
    }
    while (glob.starts_with("./"))
        glob.erase(0, 2);
    return std::nullopt;
}

}  // namespace

ToolTask async_glob(ToolRun& run) {
    const ToolArguments& arguments = run.arguments;
    std::string glob = arguments.text("pattern");
    std::string path = arguments.text("path", ".");
    if (std::optional<ToolResult> failure = read_pattern(run, glob, path))
        co_return std::move(*failure);
    SearchScope scope;
    if (std::optional<ToolResult> failure = find_scope(run, path, ScopeKind::directory, scope))
        co_return std::move(*failure);
    const bool is_case_sensitive = arguments.flag("case_sensitive", false);
    Collector collector(scope, glob,
                        is_case_sensitive ? GlobPattern::Case::differs : GlobPattern::Case::ignored);
    std::vector<std::string> line = ripgrep_walk_options();
    line.emplace_back("--files");
    // Without a thread beside it, for which a sandbox may have no room.
    line.emplace_back("--threads=1");
    if (!arguments.flag("respect_git_ignore", true))
        line.emplace_back("--no-ignore");
    line.insert(line.end(), {"--", scope.target()});
    Ripgrep ripgrep(run);
    if (std::optional<ToolResult> failure = ripgrep.start(std::move(line), scope.directory.get(), {}))
        co_return std::move(*failure);
    co_await async_collect_names(run, ripgrep, collector);
    co_await ripgrep.async_finish();
    if (std::optional<ToolResult> failure = ripgrep.failure("The files could not be found"))
        co_return std::move(*failure);
    const std::size_t total = collector.chosen().count();
    const std::vector<std::string> files = collector.chosen().take();
    ToolResult result;
    result.data.texts("files", files).number("count", files.size()).number("totalCount", total);
    result.data.flag("truncated", files.size() < total);
    if (files.size() < total)
        result.warnings.push_back("Only the first " + std::to_string(files.size()) + " of " +
                                  std::to_string(total) + " files are listed.");
    if (ripgrep.status() == k_glob_status_partial)
        result.warnings.emplace_back("Some directories could not be read.");
    result.user_feedback = "Found " + counted(total, "file") + " for " + glob + ".";
    co_return result;
}

}  // namespace atl::guest
