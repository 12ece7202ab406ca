#include "bridge/guest/tools/text_diff.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace atl::guest {
namespace {

constexpr std::size_t k_context_lines = 3;
// Bounds of the search for a shortest difference (Myers, "An O(ND) Difference Algorithm", 1986).
constexpr std::size_t k_most_compared_lines = 20'000;
constexpr int k_most_steps = 400;
constexpr std::size_t k_most_comparisons = 4'000'000;

using Lines = std::vector<std::string_view>;
using Numbers = std::vector<std::uint32_t>;

/// A run of lines of both texts; equal ones are in no change.
struct Change {
    std::size_t old_from, old_to, new_from, new_to;
};

/// The part of both texts that is compared, in whole lines, and the line that it begins with.
struct Window {
    std::string_view before, after;
    std::size_t first_line = 0;
};

std::size_t back_lines(std::string_view text, std::size_t at, std::size_t lines) {
    while (at > 0) {
        if (text[at - 1] == '\n' && lines-- == 0)
            return at;
        --at;
    }
    return 0;
}

std::size_t on_lines(std::string_view text, std::size_t at, std::size_t lines) {
    while (at < text.size() && lines > 0) {
        const std::size_t end = text.find('\n', at);
        at = end == std::string_view::npos ? text.size() : end + 1;
        --lines;
    }
    return at;
}

Window window_of(std::string_view before, std::string_view after) {
    const std::size_t shorter = std::min(before.size(), after.size());
    const auto first =
        std::mismatch(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(shorter), after.begin());
    const auto equal = static_cast<std::size_t>(first.first - before.begin());
    std::size_t from = back_lines(before, equal, k_context_lines);
    // Where one text ends, its last line may go on in the other.
    std::size_t tail = 0;
    while (tail < shorter - equal && before[before.size() - 1 - tail] == after[after.size() - 1 - tail])
        ++tail;
    std::size_t end = before.size() - tail;
    if (end == 0 || before[end - 1] != '\n' || after.size() == tail || after[after.size() - tail - 1] != '\n')
        end = on_lines(before, end, 1);
    end = on_lines(before, end, k_context_lines);
    const std::size_t kept_tail = before.size() - end;
    from = std::min({from, end, after.size() - kept_tail});
    Window window;
    window.before = before.substr(from, end - from);
    window.after = after.substr(from, after.size() - kept_tail - from);
    window.first_line = static_cast<std::size_t>(
        std::count(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(from), '\n'));
    return window;
}

/// Lines with their line ends, at most `most` of them.
Lines split(std::string_view text, std::size_t most) {
    Lines lines;
    while (!text.empty() && lines.size() < most) {
        const std::size_t end = text.find('\n');
        const std::size_t size = end == std::string_view::npos ? text.size() : end + 1;
        lines.push_back(text.substr(0, size));
        text.remove_prefix(size);
    }
    return lines;
}

/// A number for each text of a line: equal lines, in both texts, have the same.
class LineNumbers {
  public:
    Numbers of(const Lines& lines) {
        Numbers numbers;
        numbers.reserve(lines.size());
        for (const std::string_view line : lines)
            numbers.push_back(known_.emplace(line, static_cast<std::uint32_t>(known_.size())).first->second);
        return numbers;
    }

  private:
    std::unordered_map<std::string_view, std::uint32_t> known_;
};

/// The furthest old line on each diagonal, after each step.
using Trace = std::vector<std::vector<int>>;

/// How far `reached`, the diagonals after `step` steps, is on one of them; -1: it is not on it.
int reach(const std::vector<int>& reached, int step, int diagonal) {
    return diagonal < -step || diagonal > step ? -1 : reached[static_cast<std::size_t>(diagonal + step)];
}

/// The changes behind a finished trace, first to last.
std::vector<Change> follow_back(const Trace& trace, int old_size, int new_size) {
    std::vector<Change> changes;
    int diagonal = old_size - new_size;
    for (int step = static_cast<int>(trace.size()) - 1; step > 0; --step) {
        const std::vector<int>& reached = trace[static_cast<std::size_t>(step) - 1];
        const int deleted = reach(reached, step - 1, diagonal - 1);
        const int inserted = reach(reached, step - 1, diagonal + 1);
        const bool is_insert = deleted < inserted;
        diagonal += is_insert ? 1 : -1;
        const auto x = static_cast<std::size_t>(is_insert ? inserted : deleted);
        const auto y = static_cast<std::size_t>((is_insert ? inserted : deleted) - diagonal);
        const Change change{x, x + (is_insert ? 0 : 1), y, y + (is_insert ? 1 : 0)};
        if (!changes.empty() && changes.back().old_from == change.old_to &&
            changes.back().new_from == change.new_to) {
            changes.back().old_from = change.old_from;
            changes.back().new_from = change.new_from;
        } else {
            changes.push_back(change);
        }
    }
    std::reverse(changes.begin(), changes.end());
    return changes;
}

/// How far one goes on `diagonal` in the next step, before equal lines.
int advance(const Trace& trace, int step, int diagonal) {
    if (step == 0)
        return 0;
    return std::max(reach(trace.back(), step - 1, diagonal + 1),
                    reach(trace.back(), step - 1, diagonal - 1) + 1);
}

/// False where the texts differ too much. Equal texts have no change.
bool compare(const Numbers& before, const Numbers& after, std::vector<Change>& changes) {
    const int old_size = static_cast<int>(before.size());
    const int new_size = static_cast<int>(after.size());
    Trace trace;
    std::size_t comparisons = 0;
    for (int step = 0; step <= k_most_steps && comparisons <= k_most_comparisons; ++step) {
        std::vector<int> reached(static_cast<std::size_t>(2 * step + 1), -1);
        for (int diagonal = -step; diagonal <= step; diagonal += 2) {
            int x = advance(trace, step, diagonal);
            for (int y = x - diagonal; x < old_size && y < new_size; ++x, ++y, ++comparisons)
                if (y < 0 || before[static_cast<std::size_t>(x)] != after[static_cast<std::size_t>(y)])
                    break;
            reached[static_cast<std::size_t>(diagonal + step)] = x;
            if (x < old_size || x - diagonal < new_size)
                continue;
            trace.push_back(std::move(reached));
            changes = follow_back(trace, old_size, new_size);
            return true;
        }
        trace.push_back(std::move(reached));
    }
    return false;
}

/// All lines between the equal ones at both ends.
std::vector<Change> one_block(const Numbers& before, const Numbers& after) {
    std::size_t head = 0;
    const std::size_t shorter = std::min(before.size(), after.size());
    while (head < shorter && before[head] == after[head])
        ++head;
    std::size_t tail = 0;
    while (tail < shorter - head && before[before.size() - 1 - tail] == after[after.size() - 1 - tail])
        ++tail;
    return {{head, before.size() - tail, head, after.size() - tail}};
}

class Writer {
  public:
    Writer(TextDiff& diff, std::size_t limit_bytes) : diff_(diff), limit_bytes_(limit_bytes) {}

    void line(char mark, std::string_view text) {
        if (diff_.is_cut)
            return;
        if (diff_.text.size() + text.size() + 32 > limit_bytes_) {
            diff_.is_cut = true;
            return;
        }
        diff_.text += mark;
        diff_.text += text;
        if (!text.ends_with('\n'))
            diff_.text += "\n\\ No newline at end of file\n";
    }
    void head(std::size_t old_from, std::size_t old_count, std::size_t new_from, std::size_t new_count) {
        const auto range = [](std::size_t from, std::size_t count) {
            return std::to_string(count == 0 ? from : from + 1) +
                   (count == 1 ? "" : "," + std::to_string(count));
        };
        line('@', "@ -" + range(old_from, old_count) + " +" + range(new_from, new_count) + " @@\n");
    }

  private:
    TextDiff& diff_;
    std::size_t limit_bytes_;
};

/// Changes closer than two contexts share a hunk.
void write_hunks(const Lines& before, const Lines& after, const std::vector<Change>& changes,
                 std::size_t first_line, Writer& writer) {
    for (std::size_t i = 0; i < changes.size();) {
        std::size_t last = i;
        while (last + 1 < changes.size() &&
               changes[last + 1].old_from - changes[last].old_to <= 2 * k_context_lines)
            ++last;
        const std::size_t lead = std::min(k_context_lines, changes[i].old_from);
        const std::size_t trail = std::min(k_context_lines, before.size() - changes[last].old_to);
        const std::size_t old_from = changes[i].old_from - lead;
        const std::size_t new_from = changes[i].new_from - lead;
        writer.head(first_line + old_from, changes[last].old_to + trail - old_from, first_line + new_from,
                    changes[last].new_to + trail - new_from);
        std::size_t at = old_from;
        for (; i <= last; ++i) {
            for (; at < changes[i].old_from; ++at)
                writer.line(' ', before[at]);
            for (; at < changes[i].old_to; ++at)
                writer.line('-', before[at]);
            for (std::size_t k = changes[i].new_from; k < changes[i].new_to; ++k)
                writer.line('+', after[k]);
        }
        for (const std::size_t end = at + trail; at < end; ++at)
            writer.line(' ', before[at]);
    }
}

}  // namespace

TextDiff unified_diff(std::string_view from, std::string_view name, std::string_view before,
                      std::string_view after, std::size_t limit_bytes) {
    TextDiff diff;
    if (before == after)
        return diff;
    const Window window = window_of(before, after);
    // Lines beyond the limit are ignored, and the diff counts as cut.
    const Lines old_lines = split(window.before, k_most_compared_lines);
    const Lines new_lines = split(window.after, k_most_compared_lines);
    LineNumbers numbers;
    const Numbers old_numbers = numbers.of(old_lines);
    const Numbers new_numbers = numbers.of(new_lines);
    std::vector<Change> changes;
    if (!compare(old_numbers, new_numbers, changes))
        changes = one_block(old_numbers, new_numbers);
    diff.text.append("--- ").append(from).append("\n+++ ").append(name).append("\n");
    Writer writer(diff, limit_bytes);
    write_hunks(old_lines, new_lines, changes, window.first_line, writer);
    diff.is_cut =
        diff.is_cut || old_lines.size() == k_most_compared_lines || new_lines.size() == k_most_compared_lines;
    return diff;
}

}  // namespace atl::guest
