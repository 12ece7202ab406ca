// read_file: lines of a text file, a small binary file as base64, or the listing of a directory.
#include <errno.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bridge/guest/tools/file_text.hpp"
#include "bridge/guest/tools/tool_run.hpp"
#include "core/plain/utf8.hpp"

namespace atl::guest {
namespace {

using namespace base::tool_error;

constexpr std::string_view k_cut_line_mark = "... [truncated]";
constexpr std::size_t k_named_lines = 10;
constexpr std::size_t k_usual_text_bytes = 64UL * 1024;
constexpr std::size_t k_lines_per_turn = 100'000;

struct LineRange {
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> limit;
    std::string problem;
};

/// Both forms: offset and limit, or start_line and end_line.
LineRange range_of(const ToolArguments& arguments) {
    LineRange range;
    const auto start = arguments.count("start_line");
    const auto end = arguments.count("end_line");
    if ((start || end) && (arguments.has("offset") || arguments.has("limit"))) {
        range.problem = "Give `offset` and `limit`, or `start_line` and `end_line`, not both.";
        return range;
    }
    range.offset = start ? *start - 1 : arguments.count("offset").value_or(0);
    range.limit = arguments.count("limit");
    if (end && *end <= range.offset)
        range.problem = "`end_line` is before `start_line`.";
    else if (end)
        range.limit = *end - range.offset;
    return range;
}

/// The part of a text that read_file shows.
struct Excerpt {
    std::string text;
    std::uint64_t first = 0;  // lines, counted from 0
    std::uint64_t end = 0;
    std::uint64_t total = 0;
    std::vector<std::string> cut_lines;  // their numbers, counted from 1
    std::size_t cut_count = 0;
};

/// Adds a line with its end; false if there is no room for it.
bool add_line(Excerpt& excerpt, std::string_view line, std::uint64_t number) {
    const bool has_end = line.ends_with('\n');
    const std::string_view body = line.substr(0, line.size() - (has_end ? 1 : 0));
    const std::string_view shown = first_characters(body, base::k_max_tool_line_characters);
    if (excerpt.text.size() + shown.size() + 32 > base::k_max_tool_text_bytes)
        return false;
    if (shown.size() == body.size()) {
        excerpt.text += line;
        return true;
    }
    excerpt.text.append(shown).append(k_cut_line_mark).append(has_end ? "\n" : "");
    if (++excerpt.cut_count <= k_named_lines)
        excerpt.cut_lines.push_back(std::to_string(number));
    return true;
}

Task<Excerpt> async_excerpt(Call& call, std::string_view text, const LineRange& range) {
    Excerpt excerpt;
    excerpt.first = range.offset;
    if (!range.limit)
        excerpt.text.reserve(std::min(text.size(), k_usual_text_bytes));
    const std::uint64_t most =
        std::min<std::uint64_t>(range.limit.value_or(base::k_max_tool_lines), base::k_max_tool_lines);
    bool is_full = false;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t newline = text.find('\n', at);
        const std::size_t next = newline == std::string_view::npos ? text.size() : newline + 1;
        const std::uint64_t index = excerpt.total++;
        if (index >= range.offset && index - range.offset < most && !is_full) {
            is_full = !add_line(excerpt, text.substr(at, next - at), index + 1);
            excerpt.end = is_full ? index : index + 1;
        }
        at = next;
        if (excerpt.total % k_lines_per_turn == 0)
            co_await call.turn();
    }
    co_return excerpt;
}

std::string lines_text(std::uint64_t first, std::uint64_t end) {
    return "lines " + std::to_string(first + 1) + "-" + std::to_string(end);
}

/// Tells what was left out, and how to go on.
void tell_cuts(ToolResult& result, const Excerpt& excerpt, const LineRange& range) {
    const bool asked_for_less = range.limit && excerpt.end - excerpt.first == *range.limit;
    if (excerpt.end < excerpt.total) {
        const std::string next = std::to_string(excerpt.end);
        result.data.number("nextOffset", excerpt.end);
        if (!asked_for_less)
            result.warnings.push_back("The file has " + std::to_string(excerpt.total) + " lines; " +
                                      lines_text(excerpt.end, excerpt.total) +
                                      " are not shown. Read on with offset " + next + ".");
    }
    if (excerpt.cut_count == 0)
        return;
    std::string numbers;
    for (const std::string& number : excerpt.cut_lines)
        numbers += (numbers.empty() ? "" : ", ") + number;
    result.warnings.push_back(counted(excerpt.cut_count, "line") + " of more than " +
                              std::to_string(base::k_max_tool_line_characters) +
                              " characters cut: " + numbers +
                              (excerpt.cut_count > excerpt.cut_lines.size() ? " and others." : "."));
}

ToolResult text_result(const Found& found, const Excerpt& excerpt, const LineRange& range,
                       std::string_view whole) {
    const std::string path = WorkspacePaths::shown(found.relative);
    if (range.offset > 0 && range.offset >= excerpt.total) {
        ToolResult result = ToolResult::failure(
            offset_out_of_bounds,
            "Line offset " + std::to_string(range.offset) + " is past the end of " + path + ", which has " +
                counted(excerpt.total, "line") + ".",
            "Could not read " + path + ": it has only " + counted(excerpt.total, "line") + ".");
        result.details.number("totalLines", excerpt.total);
        return result;
    }
    ToolResult result;
    const std::uint64_t end = std::max(excerpt.end, excerpt.first);
    const bool is_cut = excerpt.end < excerpt.total || excerpt.cut_count > 0 || excerpt.first > 0;
    result.data.text("filePath", path).text("content", excerpt.text).text("encoding", "utf8");
    result.data.text("mimeType", "text/plain").number("size", whole.size());
    result.data.number("totalLines", excerpt.total).number("offset", excerpt.first);
    result.data.number("startLine", excerpt.first + 1).number("endLine", end);
    result.data.number("lineCount", end - excerpt.first).flag("truncated", is_cut);
    tell_cuts(result, excerpt, range);
    if (!base::is_utf8(whole))
        result.warnings.emplace_back("The file is not UTF-8: bytes that are none are shown as U+FFFD.");
    result.user_feedback = "Read " + path + " (" + counted(end - excerpt.first, "line") +
                           (is_cut ? " of " + std::to_string(excerpt.total) : "") + ").";
    return result;
}

ToolResult binary_file_result(const Found& found, const ToolArguments& arguments, std::string_view bytes) {
    const std::string path = WorkspacePaths::shown(found.relative);
    const std::string_view type = mime_type(bytes);
    if (bytes.size() > base::k_max_tool_binary_bytes) {
        ToolResult result = ToolResult::failure(
            binary_file,
            path + " is a binary file of " + counted(bytes.size(), "byte") + "; at most " +
                counted(base::k_max_tool_binary_bytes, "byte") + " of one are returned.",
            "Could not read " + path + ": it is a large binary file.");
        result.details.text("mimeType", type).number("size", bytes.size());
        return result;
    }
    ToolResult result;
    result.data.text("filePath", path).text("content", base64(bytes)).text("encoding", "base64");
    result.data.text("mimeType", type).number("size", bytes.size()).flag("truncated", false);
    if (arguments.has("offset") || arguments.has("limit") || arguments.has("start_line"))
        result.warnings.emplace_back(
            "The file is binary: all of it is returned, whatever lines were asked for.");
    result.user_feedback =
        "Read " + path + " (" + std::string(type) + ", " + counted(bytes.size(), "byte") + ").";
    return result;
}

ToolResult too_large(const std::string& path, std::uint64_t size_bytes) {
    ToolResult result =
        ToolResult::failure(file_too_large,
                            path + " has " + counted(size_bytes, "byte") + "; files of more than " +
                                counted(base::k_max_tool_file_bytes, "byte") + " are not read.",
                            "Could not read " + path + ": it is too large.");
    result.details.number("size", size_bytes).number("maxSize", base::k_max_tool_file_bytes);
    return result;
}

}  // namespace

ToolTask async_read_file(ToolRun& run) {
    const std::string given = run.arguments.text("absolute_path");
    const LineRange range = range_of(run.arguments);
    if (!range.problem.empty())
        co_return ToolResult::failure(invalid_arguments, range.problem, "The file could not be read.");
    const std::optional<std::string> relative = run.paths.relative(given);
    std::optional<Found> found = relative ? run.paths.find(*relative) : std::nullopt;
    if (!found)
        co_return path_failure(errno, given, "read");
    if (found->is_directory()) {
        const std::vector<std::string> nothing;
        ToolResult listing = co_await async_list(run, *found, nothing);
        listing.warnings.push_back(WorkspacePaths::shown(found->relative) +
                                   " is a directory; this is its listing.");
        co_return listing;
    }
    if (!found->is_regular())
        co_return not_a_file(*found, given, "read");
    FileBytes file = co_await async_read_all(run.call, *found, base::k_max_tool_file_bytes);
    if (file.error == EFBIG)
        co_return too_large(WorkspacePaths::shown(found->relative),
                            static_cast<std::uint64_t>(found->state.st_size));
    if (file.error != 0)
        co_return path_failure(file.error, given, "read");
    ToolResult result;
    if (is_binary(file.bytes)) {
        result = binary_file_result(*found, run.arguments, file.bytes);
    } else {
        const Excerpt excerpt = co_await async_excerpt(run.call, file.bytes, range);
        result = text_result(*found, excerpt, range, file.bytes);
    }
    // The state is that before the reading, so a change meanwhile counts as one after it.
    if (result.success)
        run.read_files.note(found->relative, found->state);
    co_return result;
}

}  // namespace atl::guest
