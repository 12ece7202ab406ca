// search_file_content: lines of files that match a regular expression, by ripgrep, in the order of the paths.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "bridge/guest/files/new_file.hpp"
#include "bridge/guest/tools/glob_pattern.hpp"
#include "bridge/guest/tools/ripgrep.hpp"
#include "bridge/guest/tools/search_output.hpp"
#include "bridge/guest/tools/search_scope.hpp"

namespace atl::guest {
namespace {

using namespace base::tool_error;

constexpr std::string_view k_cut_match_mark = "... [truncated]";
constexpr int k_status_partial = 2;

/// The place of the names that a glob without a slash matches.
enum class LoneName : std::uint8_t { anywhere, at_top };

/// The globs of `include`: a path below the scope, or a name anywhere below it.
class Include {
  public:
    Include(const std::string& glob, LoneName lone) {
        if (glob.empty())
            return;
        const bool is_anywhere = lone == LoneName::anywhere && glob.find('/') == std::string::npos;
        const std::string anywhere = is_anywhere ? "**/" + glob : glob;
        pattern_.emplace(anywhere, GlobPattern::Case::differs, GlobPattern::Brackets::either);
        rules_ = rules_for(anywhere);
    }
    /// The verdict on the latest path is kept: the matches of a file come one behind the other.
    bool matches(std::string_view path) {
        if (!pattern_)
            return true;
        if (!is_judged_ || judged_ != path) {
            is_match_ = pattern_->matches(path);
            judged_ = path;
            is_judged_ = true;
        }
        return is_match_;
    }
    /// How many bytes of output may be judged before others have their turn.
    std::size_t bytes_per_turn() const {
        return pattern_ ? std::max<std::size_t>(GlobWork::k_steps_per_turn / pattern_->cost(), 1) : SIZE_MAX;
    }
    /// For ripgrep, so that it does not even open other files; empty where the glob cannot be told in its
    /// words. As rules of an ignore file, not as --glob, which would go before .gitignore.
    const std::string& rules() const noexcept { return rules_; }

  private:
    static std::string rules_for(std::string_view glob) {
        if (glob.find_first_of("{}\\\n!") != std::string_view::npos || glob.ends_with(' '))
            return {};
        std::string literal;
        for (const char each : glob)
            literal.append(each == '[' || each == ']' ? "\\" : "").push_back(each);
        const std::string plain(glob);
        return "*\n!*/\n!/" + plain + "\n" + (literal == plain ? "" : "!/" + literal + "\n");
    }

    std::optional<GlobPattern> pattern_;
    std::string rules_;
    std::string judged_;
    bool is_judged_ = false;
    bool is_match_ = false;
};

struct Search {
    std::string pattern;
    std::string include_glob;
    std::size_t most;
    bool is_case_sensitive;
    LoneName lone = LoneName::anywhere;
};

/// The matches that were found, as the text of a list.
class Matches {
  public:
    Matches(const SearchScope& scope, Include& include, std::size_t most)
        : scope_(scope), include_(include), most_(most) {}

    /// False once there are more than wanted.
    bool add(const SearchMatch& match) {
        if (!include_.matches(SearchScope::inner(match.path)) || has_hidden_name(match.path))
            return true;
        if (count_ == most_) {
            is_cut_ = true;
            return false;
        }
        const std::string_view shown = first_characters(match.line, base::k_max_tool_line_characters);
        const bool is_line_cut = shown.size() < match.line.size();
        cut_lines_ += is_line_cut ? 1 : 0;
        JsonObject json;
        json.text("filePath", WorkspacePaths::shown(scope_.whole(match.path)));
        json.number("lineNumber", match.line_number);
        json.text("line",
                  std::string(shown) + std::string(is_line_cut ? k_cut_match_mark : std::string_view()));
        list_ += (count_ > 0 ? "," : "") + std::move(json).close();
        files_.insert(match.path);
        ++count_;
        return true;
    }
    std::size_t count() const noexcept { return count_; }
    std::size_t file_count() const noexcept { return files_.size(); }
    std::size_t cut_lines() const noexcept { return cut_lines_; }
    bool is_cut() const noexcept { return is_cut_; }
    std::string json() const { return "[" + list_ + "]"; }

  private:
    const SearchScope& scope_;
    Include& include_;
    std::size_t most_;
    std::size_t count_ = 0;
    std::size_t cut_lines_ = 0;
    bool is_cut_ = false;
    std::string list_;
    std::set<std::string> files_;
};

std::vector<std::string> command_line(const Search& search, const SearchScope& scope,
                                      const Include& include) {
    std::vector<std::string> line = ripgrep_walk_options();
    line.insert(line.end(), {"--no-heading", "--with-filename", "--line-number", "--color=never",
                             "--sort=path", "--crlf"});
    line.push_back("--max-filesize=" + std::to_string(base::k_max_tool_file_bytes));
    line.emplace_back(search.is_case_sensitive ? "--case-sensitive" : "--ignore-case");
    if (!include.rules().empty())
        line.emplace_back(Ripgrep::k_ignore_file);
    // Else every file that `include` leaves out would be told.
    if (search.include_glob.empty())
        line.emplace_back(Ripgrep::k_tell_skipped);
    line.push_back("--regexp=" + search.pattern);
    line.emplace_back("--");
    line.push_back(scope.target());
    return line;
}

/// The complaint about a pattern or a glob; empty if it is good.
std::string text_problem(std::string_view name, std::string_view text, std::size_t most_bytes) {
    if (text.size() > most_bytes)
        return "`" + std::string(name) + "` has more than " + std::to_string(most_bytes) + " bytes.";
    if (text.find('\0') != std::string_view::npos)
        return "`" + std::string(name) + "` holds a NUL character.";
    return {};
}

std::string pattern_problem(const Search& search) {
    if (search.pattern.empty())
        return "`pattern` is empty.";
    std::string problem = text_problem("pattern", search.pattern, base::k_max_tool_pattern_bytes);
    return problem.empty() ? text_problem("include", search.include_glob, base::k_max_glob_bytes) : problem;
}

ToolResult pattern_failure(const std::string& problem) {
    return ToolResult::failure(invalid_pattern, problem, "The search could not be made: " + problem);
}

/// `include` as a path below the scope, where it is written as one of the workspace or with `./`: else it
/// would match nothing, which is no answer to what was asked.
std::optional<ToolResult> place_include(const ToolRun& run, const SearchScope& scope, Search& search) {
    std::string& glob = search.include_glob;
    if (glob.starts_with('/')) {
        const std::optional<std::string> inside = run.paths.relative_pattern(glob);
        if (!inside)
            return path_failure(errno, glob, "search");
        const std::string below = scope.relative.empty() ? "" : scope.relative + "/";
        if (!inside->starts_with(below))
            return pattern_failure("`include` is absolute and does not lie below `path`.");
        glob = inside->substr(below.size());
        search.lone = LoneName::at_top;
    }
    for (; glob.starts_with("./"); search.lone = LoneName::at_top)
        glob.erase(0, 2);
    return std::nullopt;
}

ToolResult found_result(const Search& search, const SearchScope& scope, const Matches& matches,
                        const Ripgrep& ripgrep) {
    ToolResult result;
    result.data.raw("matches", matches.json()).number("matchCount", matches.count());
    result.data.number("fileCount", matches.file_count()).flag("truncated", matches.is_cut());
    if (matches.is_cut())
        result.warnings.push_back("There are more than " + std::to_string(search.most) +
                                  " matching lines; these are the first.");
    if (matches.cut_lines() > 0)
        result.warnings.push_back(counted(matches.cut_lines(), "line") + " of more than " +
                                  std::to_string(base::k_max_tool_line_characters) + " characters cut.");
    if (const std::size_t skipped = ripgrep.skipped_files(); skipped > 0)
        result.warnings.push_back(counted(skipped, "file") + " of more than " +
                                  std::to_string(base::k_max_tool_file_bytes / 1024 / 1024) +
                                  " MiB not searched.");
    if (!matches.is_cut() && ripgrep.status() == k_status_partial)
        result.warnings.emplace_back("Some files or directories could not be read.");
    const std::string where = WorkspacePaths::shown(scope.whole(scope.file));
    result.user_feedback = matches.count() == 0 ? "Found no match in " + where + "."
                                                : "Found " + counted(matches.count(), "match") +
                                                      (matches.is_cut() ? ", and more," : "") + " in " +
                                                      counted(matches.file_count(), "file") + ".";
    return result;
}

ToolResult binary_match_result(const std::string& path) {
    return ToolResult::failure(binary_file,
                               path + " is a binary file; it matches, but no lines of it are shown.",
                               "Could not search " + path + ": it is a binary file.");
}

/// Takes in what ripgrep prints, until enough is found.
Task<void> async_collect_matches(ToolRun& run, Ripgrep& ripgrep, SearchOutput& output, const Matches& matches,
                                 std::size_t bytes_per_turn) {
    const Call::Progress progress(run.call, [&matches] { return counted_so_far(matches.count(), "match"); });
    for (;;) {
        std::string_view piece = co_await ripgrep.async_read();
        if (piece.empty())
            co_return;
        while (!piece.empty()) {
            const std::string_view part = piece.substr(0, bytes_per_turn);
            piece.remove_prefix(part.size());
            if (!output.feed(part)) {
                ripgrep.kill();
                co_return;
            }
            if (!piece.empty())
                co_await run.call.turn();
        }
    }
}

}  // namespace

ToolTask async_search_file_content(ToolRun& run) {
    const ToolArguments& arguments = run.arguments;
    Search search{arguments.text("pattern"), arguments.text("include"),
                  arguments.count("max_matches").value_or(base::k_default_tool_matches),
                  arguments.flag("case_sensitive", false)};
    if (const std::string problem = pattern_problem(search); !problem.empty())
        co_return pattern_failure(problem);
    const std::string given = arguments.text("path", ".");
    SearchScope scope;
    if (std::optional<ToolResult> failure = find_scope(run, given, ScopeKind::directory_or_file, scope))
        co_return std::move(*failure);
    if (std::optional<ToolResult> failure = place_include(run, scope, search))
        co_return std::move(*failure);
    Include include(search.include_glob, search.lone);
    Matches matches(scope, include, search.most);
    // A character has at most four bytes; one more tells whether the line is cut.
    SearchOutput output(
        4 * base::k_max_tool_line_characters + 4,
        [&matches](const SearchMatch& match) { return matches.add(match); },
        [&scope](const std::string& path) { return scope.has_file(path); });
    Ripgrep ripgrep(run);
    if (std::optional<ToolResult> failure =
            ripgrep.start(command_line(search, scope, include), scope.directory.get(), include.rules()))
        co_return std::move(*failure);
    co_await async_collect_matches(run, ripgrep, output, matches, include.bytes_per_turn());
    co_await ripgrep.async_finish();
    const bool is_binary = !scope.file.empty() && output.ends_in_notice(scope.target());
    if (is_binary && matches.count() == 0)
        co_return binary_match_result(WorkspacePaths::shown(scope.whole(scope.file)));
    if (!matches.is_cut())
        if (std::optional<ToolResult> failure = ripgrep.failure("The search failed"))
            co_return std::move(*failure);
    ToolResult result = found_result(search, scope, matches, ripgrep);
    if (is_binary)
        result.warnings.emplace_back("The file is binary: matches behind its text are not shown.");
    co_return result;
}

}  // namespace atl::guest
