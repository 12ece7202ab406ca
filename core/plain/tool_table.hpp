// The tools as their callers see them: names, parameters, other names of parameters that models use, ranges.
// The one table that the published schemas are made from and that arguments are checked against. Not here:
// what the tools do.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/plain/operation_limits.hpp"

namespace atl::base {

enum class ToolValue : std::uint8_t { text, flag, count, text_list };
/// required and optional parameters are published; an accepted one is understood, but not offered.
enum class ToolNeed : std::uint8_t { required, optional, accepted };

struct ToolParameter {
    std::string_view name;
    ToolValue value;
    ToolNeed need;
    std::string_view means;
    std::array<std::string_view, 2> aliases{};  // empty: none
    std::int64_t least = 0;                     // of a count
    std::int64_t most = INT32_MAX;
    std::string_view fallback{};  // JSON text of what an absent one means; empty: nothing fixed
};

struct ToolSpec {
    std::string_view name;
    std::string_view means;
    std::span<const ToolParameter> parameters;
    /// The guest answers those that read or write files. The server answers one that runs what its caller
    /// wrote, which can be switched off and which programs get only by its name.
    enum class Effect : std::uint8_t { reads, writes, runs } effect;
};

/// Reasons why a tool failed: `technicalDetails.errorCode`.
namespace tool_error {
inline constexpr std::string_view missing_sandbox = "MISSING_SANDBOX";
inline constexpr std::string_view sandbox_unavailable = "SANDBOX_UNAVAILABLE";
inline constexpr std::string_view invalid_path = "INVALID_PATH";
inline constexpr std::string_view outside_workspace = "OUTSIDE_WORKSPACE";
inline constexpr std::string_view file_not_found = "FILE_NOT_FOUND";
inline constexpr std::string_view is_directory = "IS_DIRECTORY";
inline constexpr std::string_view not_a_directory = "NOT_A_DIRECTORY";
inline constexpr std::string_view not_a_file = "NOT_A_FILE";
inline constexpr std::string_view permission_denied = "PERMISSION_DENIED";
inline constexpr std::string_view file_already_exists = "FILE_ALREADY_EXISTS";
inline constexpr std::string_view file_too_large = "FILE_TOO_LARGE";
inline constexpr std::string_view binary_file = "BINARY_FILE";
inline constexpr std::string_view offset_out_of_bounds = "OFFSET_OUT_OF_BOUNDS";
inline constexpr std::string_view string_not_found = "STRING_NOT_FOUND";
inline constexpr std::string_view occurrence_mismatch = "OCCURRENCE_MISMATCH";
inline constexpr std::string_view no_change_needed = "NO_CHANGE_NEEDED";
inline constexpr std::string_view file_changed = "FILE_CHANGED";
inline constexpr std::string_view invalid_pattern = "INVALID_PATTERN";
inline constexpr std::string_view invalid_arguments = "INVALID_ARGUMENTS";
inline constexpr std::string_view timeout = "TIMEOUT";
inline constexpr std::string_view disk_full = "DISK_FULL";
/// The tool is switched off in this sandbox.
inline constexpr std::string_view tool_disabled = "TOOL_DISABLED";
/// The sandbox lacks what the tool needs: ripgrep, room for a process, memory, a readable disk.
inline constexpr std::string_view tool_unavailable = "TOOL_UNAVAILABLE";
inline constexpr std::array all = {
    missing_sandbox,  sandbox_unavailable, invalid_path,         outside_workspace, file_not_found,
    is_directory,     not_a_directory,     not_a_file,           permission_denied, file_already_exists,
    file_too_large,   binary_file,         offset_out_of_bounds, string_not_found,  occurrence_mismatch,
    no_change_needed, file_changed,        invalid_pattern,      invalid_arguments, timeout,
    disk_full,        tool_disabled,       tool_unavailable};
}  // namespace tool_error

namespace tool_table {

inline constexpr ToolParameter k_list_directory[] = {
    {"path",
     ToolValue::text,
     ToolNeed::required,
     "The directory, relative to the workspace or absolute under /workspace; \".\" is the workspace.",
     {"dir_path"}},
    {"ignore", ToolValue::text_list, ToolNeed::optional,
     "Globs; an entry whose name matches one is left out, as in [\"node_modules\", \"*.log\"]."}};

inline constexpr ToolParameter k_read_file[] = {
    {"absolute_path",
     ToolValue::text,
     ToolNeed::required,
     "The file, absolute under /workspace or relative to the workspace.",
     {"file_path", "path"}},
    {"offset", ToolValue::count, ToolNeed::optional,
     "The first line to read, counted from 0. For the next part of a long file."},
    {"limit", ToolValue::count, ToolNeed::optional, "How many lines to read, at most 2,000.", {}, 1},
    {"start_line", ToolValue::count, ToolNeed::accepted, "As `offset`, but counted from 1.", {}, 1},
    {"end_line", ToolValue::count, ToolNeed::accepted, "The last line to read, counted from 1.", {}, 1}};

inline constexpr ToolParameter k_write_file[] = {
    {"file_path",
     ToolValue::text,
     ToolNeed::required,
     "The file, absolute under /workspace or relative to the workspace. Missing directories are made.",
     {"path"}},
    {"content", ToolValue::text, ToolNeed::required, "All of what the file is to hold."},
    {"allow_overwrite",
     ToolValue::flag,
     ToolNeed::optional,
     "Whether a file that exists already may be replaced.",
     {},
     0,
     0,
     "false"}};

inline constexpr ToolParameter k_replace[] = {
    {"file_path", ToolValue::text, ToolNeed::required,
     "The file, absolute under /workspace or relative to the workspace."},
    {"old_string", ToolValue::text, ToolNeed::required,
     "The text to replace, literally as the file has it, with enough of the lines around it to be unique. "
     "An empty text creates the file."},
    {"new_string", ToolValue::text, ToolNeed::required,
     "The text to put there, literally: nothing in it is expanded."},
    {"expected_replacements",
     ToolValue::count,
     ToolNeed::optional,
     "How often `old_string` occurs; all of its occurrences are replaced, or none if there are more or "
     "fewer.",
     {"expectedReplacements"},
     1,
     INT32_MAX,
     "1"},
    {"allow_multiple", ToolValue::flag, ToolNeed::accepted, "Replaces every occurrence, however many."}};

inline constexpr ToolParameter k_search_file_content[] = {
    {"pattern",
     ToolValue::text,
     ToolNeed::required,
     "A regular expression of ripgrep, matched line by line; without back-references and look-around.",
     {"grep_search"}},
    {"path",
     ToolValue::text,
     ToolNeed::optional,
     "The directory or file to search, relative to the workspace or absolute under /workspace.",
     {"dir_path"},
     0,
     0,
     "\".\""},
    {"include", ToolValue::text, ToolNeed::optional,
     "A glob that searched files match, as in \"*.{ts,tsx}\" or \"src/**/*.py\"; without a slash it is about "
     "the "
     "name alone."},
    {"case_sensitive",
     ToolValue::flag,
     ToolNeed::optional,
     "Whether upper and lower case differ.",
     {},
     0,
     0,
     "false"},
    {"max_matches",
     ToolValue::count,
     ToolNeed::optional,
     "How many matching lines to return.",
     {},
     1,
     static_cast<std::int64_t>(base::k_max_tool_matches),
     "100"}};
static_assert(base::k_default_tool_matches == 100);

inline constexpr ToolParameter k_glob[] = {
    {"pattern", ToolValue::text, ToolNeed::required,
     "A glob over paths below `path`: `*` and `?` stay within a name, `**` crosses directories, `{a,b}` is "
     "either. "
     "`[x]` is literal where a file is so named, else one of the characters."},
    {"path",
     ToolValue::text,
     ToolNeed::optional,
     "The directory to search, relative to the workspace or absolute under /workspace.",
     {"dir_path"},
     0,
     0,
     "\".\""},
    {"case_sensitive",
     ToolValue::flag,
     ToolNeed::optional,
     "Whether upper and lower case differ.",
     {},
     0,
     0,
     "false"},
    {"respect_git_ignore",
     ToolValue::flag,
     ToolNeed::optional,
     "Whether files that .gitignore names are left out.",
     {},
     0,
     0,
     "true"}};

inline constexpr ToolParameter k_run_command[] = {
    {"command", ToolValue::text, ToolNeed::required, "The command, a script for `bash -c`."},
    {"cwd",
     ToolValue::text,
     ToolNeed::optional,
     "The directory to run it in, relative to the workspace or absolute under /workspace.",
     {"dir_path", "directory"},
     0,
     0,
     "\".\""},
    {"timeoutMs",
     ToolValue::count,
     ToolNeed::optional,
     "Milliseconds that it may take; then it and all that it started are ended.",
     {"timeout_ms"},
     1,
     base::k_max_exec_timeout.count(),
     "30000"},
    {"description", ToolValue::text, ToolNeed::optional,
     "What it is for, in a few words, for the person in the chat."}};
static_assert(base::k_default_exec_timeout.count() == 30'000);

}  // namespace tool_table

inline constexpr ToolSpec k_tools[] = {
    {"list_directory",
     "Lists a directory: directories first, then by name. At most 2,000 entries are returned.",
     tool_table::k_list_directory, ToolSpec::Effect::reads},
    {"read_file",
     "Reads a text file, at most 2,000 lines at once; the answer says where to go on. Images and other "
     "binary files up to 1 MiB come as base64.",
     tool_table::k_read_file, ToolSpec::Effect::reads},
    {"write_file",
     "Writes a file as a whole: all of the content at once, or nothing. Replaces an existing file only with "
     "`allow_overwrite`.",
     tool_table::k_write_file, ToolSpec::Effect::writes},
    {"replace",
     "Replaces a text in a file, literally. Fails without a change where the text occurs another number of "
     "times than expected.",
     tool_table::k_replace, ToolSpec::Effect::writes},
    {"search_file_content",
     "Searches the contents of files with a regular expression (ripgrep). Files that .gitignore names are "
     "left out.",
     tool_table::k_search_file_content, ToolSpec::Effect::reads},
    {"glob",
     "Finds files by the pattern of their path: those changed in the last 24 hours first, the newest first, "
     "then by name.",
     tool_table::k_glob, ToolSpec::Effect::reads},
    {"run_command",
     "Runs a command with bash in the workspace and answers when it has ended: its exit code, stdout and "
     "stderr. Of long output the middle is left out. A server that is to go on running is started with `&`, "
     "its output redirected to a file.",
     tool_table::k_run_command, ToolSpec::Effect::runs},
};

/// Null: there is no such tool.
constexpr const ToolSpec* find_tool(std::string_view name) {
    for (const ToolSpec& tool : k_tools)
        if (tool.name == name)
            return &tool;
    return nullptr;
}

}  // namespace atl::base
