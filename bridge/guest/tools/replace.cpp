// replace: a text in a file, literally on both sides.
#include <errno.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "bridge/guest/tools/file_edit.hpp"
#include "core/plain/utf8.hpp"

namespace atl::guest {
namespace {

using namespace base::tool_error;

constexpr std::size_t k_places_per_turn = 50'000;
constexpr std::size_t k_replaced_bytes_per_turn = 256UL * 1024;
constexpr std::size_t k_nearest_lines = 3;
constexpr std::size_t k_shown_line_bytes = 200;
constexpr std::string_view k_crlf = "\r\n";

/// Where `wanted` is in `text`, from `at` on; npos: nowhere. Linear: memmem(3).
std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t at) {
    const void* const found = memmem(text.data() + at, text.size() - at, wanted.data(), wanted.size());
    return found == nullptr ? std::string_view::npos
                            : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

Task<std::size_t> async_count(Call& call, std::string_view text, std::string_view wanted) {
    std::size_t count = 0;
    for (std::size_t at = find_text(text, wanted, 0); at != std::string_view::npos;
         at = find_text(text, wanted, at + wanted.size()))
        if (++count % k_places_per_turn == 0)
            co_await call.turn();
    co_return count;
}

Task<std::string> async_substitute(Call& call, std::string_view text, std::string_view wanted,
                                   std::string_view by, std::size_t count) {
    std::string out;
    out.reserve(text.size() - count * wanted.size() + count * by.size());
    std::size_t done = 0;
    for (std::size_t i = 1; i <= count; ++i) {
        const std::size_t at = find_text(text, wanted, done);
        out.append(text, done, at - done).append(by);
        done = at + wanted.size();
        if (i % k_places_per_turn == 0)
            co_await call.turn();
    }
    out.append(text, done);
    co_return out;
}

/// `text` with "\n" for each "\r\n", as models read it.
Task<std::string> async_flat(Call& call, std::string_view text) {
    std::string out;
    out.reserve(text.size());
    std::size_t done = 0;
    std::size_t count = 0;
    for (std::size_t at = find_text(text, k_crlf, 0); at != std::string_view::npos;
         at = find_text(text, k_crlf, at + k_crlf.size())) {
        out.append(text, done, at - done);
        done = at + 1;
        if (++count % k_places_per_turn == 0)
            co_await call.turn();
    }
    out.append(text, done);
    co_return out;
}

/// How many bytes of `text` are the first `flat_bytes` of its flat form.
std::size_t bytes_of(std::string_view text, std::size_t flat_bytes) {
    std::size_t at = 0;
    for (; flat_bytes > 0; --flat_bytes)
        at += text.compare(at, k_crlf.size(), k_crlf) == 0 ? 2 : 1;
    return at;
}

/// The form of the line end at a place or behind it, and behind the last one that of the last. Places only
/// grow, so that all of it is linear.
class NearLineEnd {
  public:
    explicit NearLineEnd(std::string_view text) : text_(text) {}
    bool is_crlf(std::size_t place) {
        if (!is_known_ || place > newline_) {
            newline_ = text_.find('\n', place);
            const std::size_t shown = newline_ != std::string_view::npos ? newline_ : text_.rfind('\n');
            is_crlf_ = shown != std::string_view::npos && shown > 0 && text_[shown - 1] == '\r';
            is_known_ = true;
        }
        return is_crlf_;
    }

  private:
    std::string_view text_;
    std::size_t newline_ = 0;
    bool is_crlf_ = false;
    bool is_known_ = false;
};

/// `by` (flat) with the line ends of `match`, which ends at `place`, in their order; further ones are as the
/// last of them, or as that near the place.
void append_with_ends(std::string& out, std::string_view by, std::string_view match, std::size_t place,
                      NearLineEnd& near) {
    std::size_t at = 0;
    std::optional<bool> is_crlf;
    for (const char byte : by) {
        if (byte == '\n') {
            if (const std::size_t end = match.find('\n', at); end != std::string_view::npos) {
                is_crlf = end > 0 && match[end - 1] == '\r';
                at = end + 1;
            }
            if (!is_crlf)
                is_crlf = near.is_crlf(place);
            if (*is_crlf)
                out += '\r';
        }
        out += byte;
    }
}

/// Does what async_substitute() does in `flat` at the same places of `text`, and keeps the other line ends of
/// `text`. Ends early where the result is larger than a file may be.
Task<std::string> async_substitute_lines(Call& call, std::string_view text, std::string_view flat,
                                         std::string_view wanted, std::string_view by, std::size_t count) {
    std::string out;
    NearLineEnd near(text);
    std::size_t done = 0;       // of text
    std::size_t flat_done = 0;  // of flat
    for (std::size_t i = 1; i <= count && out.size() <= base::k_max_tool_file_bytes; ++i) {
        const std::size_t found = find_text(flat, wanted, flat_done);
        while (flat_done < found) {
            const std::size_t step = std::min(found - flat_done, k_replaced_bytes_per_turn);
            const std::size_t size = bytes_of(text.substr(done), step);
            out.append(text, done, size);
            done += size;
            flat_done += step;
            if (flat_done < found)
                co_await call.turn();
        }
        const std::size_t size = bytes_of(text.substr(done), wanted.size());
        append_with_ends(out, by, text.substr(done, size), done + size, near);
        done += size;
        flat_done += wanted.size();
        if (i % k_places_per_turn == 0)
            co_await call.turn();
    }
    out.append(text, done);
    co_return out;
}

std::string_view trimmed(std::string_view line) {
    const std::size_t from = line.find_first_not_of(" \t\r\n");
    if (from == std::string_view::npos)
        return {};
    return line.substr(from, line.find_last_not_of(" \t\r\n") - from + 1);
}

/// How alike two short texts are: the pairs of neighbouring bytes that they share, in thousandths.
class Likeness {
  public:
    explicit Likeness(std::string_view wanted) : wanted_(wanted.substr(0, k_most_bytes)) {
        for (std::size_t i = 0; i + 1 < wanted_.size(); ++i)
            ++pairs_[slot(wanted_, i)];
    }
    std::size_t of(std::string_view line) {
        line = line.substr(0, k_most_bytes);
        if (line == wanted_)
            return 1000;
        std::array<std::uint16_t, k_slots> left = pairs_;
        std::size_t shared = 0;
        for (std::size_t i = 0; i + 1 < line.size(); ++i)
            if (left[slot(line, i)] > 0) {
                --left[slot(line, i)];
                ++shared;
            }
        const std::size_t both = line.size() + wanted_.size();
        return both <= 2 ? 0 : std::min<std::size_t>(2000 * shared / (both - 2), 999);
    }

  private:
    static constexpr std::size_t k_slots = 256;
    static constexpr std::size_t k_most_bytes = 400;

    static std::size_t slot(std::string_view text, std::size_t at) {
        return (static_cast<unsigned char>(text[at]) * 31U + static_cast<unsigned char>(text[at + 1])) %
               k_slots;
    }

    std::string_view wanted_;
    std::array<std::uint16_t, k_slots> pairs_{};
};

struct NearLine {
    std::size_t likeness;
    std::size_t number;
    std::string_view text;
};

/// The lines of `text` that are most like the first line of `wanted` that is not blank.
Task<std::vector<NearLine>> async_nearest(Call& call, std::string_view text, std::string_view wanted) {
    constexpr std::size_t k_least_likeness = 500;
    std::vector<NearLine> nearest;
    std::string_view first;
    for (std::string_view rest = wanted; first.empty() && !rest.empty();) {
        const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
        first = trimmed(rest.substr(0, end + 1));
        rest.remove_prefix(end + 1);
    }
    if (first.empty())
        co_return nearest;
    Likeness likeness(first);
    std::size_t number = 0;
    std::size_t turn_at = k_replaced_bytes_per_turn;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t newline = text.find('\n', at);
        const std::size_t end = newline == std::string_view::npos ? text.size() : newline;
        const std::string_view line = trimmed(text.substr(at, end - at));
        ++number;
        const std::size_t found = line.empty() ? 0 : likeness.of(line);
        if (found >= k_least_likeness) {
            const auto place = std::find_if(nearest.begin(), nearest.end(),
                                            [&](const NearLine& other) { return other.likeness < found; });
            nearest.insert(place, NearLine{found, number, line});
            if (nearest.size() > k_nearest_lines)
                nearest.pop_back();
        }
        at = end + 1;
        if (at >= turn_at) {
            turn_at = at + k_replaced_bytes_per_turn;
            co_await call.turn();
        }
    }
    co_return nearest;
}

/// A failure of this tool, with the path told.
ToolResult refused(const FileEdit& edit, std::string_view code, const std::string& why) {
    return ToolResult::failure(code, "Cannot edit " + edit.shown() + ": " + why + ".",
                               "Could not edit " + edit.shown() + ": " + why + ".");
}

ToolResult not_found(const FileEdit& edit, const std::vector<NearLine>& nearest) {
    ToolResult result = refused(edit, string_not_found, "old_string does not occur in it");
    result.details.number("occurrences", 0);
    for (const NearLine& near : nearest)
        result.suggestions.push_back("Line " + std::to_string(near.number) +
                                     " is similar: " + base::excerpt(near.text, k_shown_line_bytes));
    result.suggestions.emplace_back(
        "Read the file and copy the text exactly, with its indentation and line ends.");
    return result;
}

ToolResult mismatch(const FileEdit& edit, std::uint64_t expected, std::size_t count) {
    ToolResult result =
        refused(edit, occurrence_mismatch,
                "old_string occurs " + counted(count, "time") + ", not " + std::to_string(expected));
    result.details.number("occurrences", count).number("expectedReplacements", expected);
    result.suggestions.push_back(
        "Add lines around old_string until it is unique, or set expected_replacements to " +
        std::to_string(count) + ".");
    return result;
}

Task<ToolResult> async_create(FileEdit& edit, const std::string& content) {
    if (edit.exists())
        co_return refused(edit, file_already_exists,
                          "old_string is empty, which creates a file, and it exists already");
    ToolResult result = co_await edit.async_commit(content);
    result.data.number("occurrences", 0);
    if (result.success)
        result.user_feedback = "Created " + edit.shown() + ".";
    co_return result;
}

}  // namespace

ToolTask async_replace(ToolRun& run) {
    const std::string given = run.arguments.text("file_path");
    std::string wanted = run.arguments.text("old_string");
    std::string by = run.arguments.text("new_string");
    const bool any_number = run.arguments.flag("allow_multiple", false);
    const std::uint64_t expected = run.arguments.count("expected_replacements").value_or(1);
    if (run.arguments.has("allow_multiple") && run.arguments.has("expected_replacements"))
        co_return ToolResult::failure(
            invalid_arguments,
            "`allow_multiple` and `expected_replacements` give the number of replacements twice.",
            "Could not edit " + base::excerpt(given, k_shown_line_bytes) +
                ": the number of replacements is given twice.");
    FileEdit edit(run);
    if (std::optional<ToolResult> failure = edit.open(given))
        co_return std::move(*failure);
    if (wanted.empty()) {
        ToolResult created = co_await async_create(edit, by);
        co_return created;
    }
    if (!edit.exists())
        co_return path_failure(ENOENT, given, "edit");
    std::optional<ToolResult> unread = co_await edit.async_load();
    if (unread)
        co_return std::move(*unread);
    if (std::optional<ToolResult> failure = edit.objection())
        co_return std::move(*failure);
    if (is_binary(edit.before()))
        co_return refused(edit, binary_file, "it is a binary file");
    if (wanted == by)
        co_return refused(edit, no_change_needed, "old_string and new_string are the same");
    // Models read, and write, "\n" for each line end: it matches either form.
    std::string flat;
    std::size_t count = 0;
    if (edit.before().find(k_crlf) != std::string::npos || wanted.find(k_crlf) != std::string::npos) {
        flat = co_await async_flat(run.call, edit.before());
        const std::string flat_wanted = co_await async_flat(run.call, wanted);
        count = co_await async_count(run.call, flat, flat_wanted);
        if (count > 0)
            wanted = flat_wanted;
    }
    const bool is_flat = count > 0;
    if (!is_flat)
        count = co_await async_count(run.call, edit.before(), wanted);
    if (count == 0) {
        const std::vector<NearLine> nearest = co_await async_nearest(run.call, edit.before(), wanted);
        co_return not_found(edit, nearest);
    }
    if (!any_number && count != expected)
        co_return mismatch(edit, expected, count);
    std::string after;
    bool is_too_large = false;
    if (is_flat) {
        by = co_await async_flat(run.call, by);
        after = co_await async_substitute_lines(run.call, edit.before(), flat, wanted, by, count);
        is_too_large = after.size() > base::k_max_tool_file_bytes;
    } else {
        is_too_large =
            by.size() > wanted.size() &&
            (by.size() - wanted.size()) > (base::k_max_tool_file_bytes - edit.before().size()) / count;
        if (!is_too_large)
            after = co_await async_substitute(run.call, edit.before(), wanted, by, count);
    }
    if (is_too_large)
        co_return refused(edit, file_too_large,
                          "it would have more than " + counted(base::k_max_tool_file_bytes, "byte"));
    if (after == edit.before())
        co_return refused(edit, no_change_needed, "old_string and new_string differ in line ends only");
    ToolResult result = co_await edit.async_commit(after);
    result.data.number("occurrences", count);
    if (result.success)
        result.user_feedback = "Replaced " + counted(count, "occurrence") + " in " + edit.shown() + ".";
    co_return result;
}

}  // namespace atl::guest
