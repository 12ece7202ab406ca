#include "core/base/nearest.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/base/limits.hpp"

namespace atl::base {
namespace {

std::string plain(std::string_view word) {
    std::string out;
    for (const char c : word) {
        if (c != '-' && c != '_')
            out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return out;
}

/// The distance of optimal string alignment.
std::size_t distance(std::string_view a, std::string_view b) {
    using Row = std::array<std::size_t, k_max_told_word_bytes + 1>;
    std::array<Row, 3> rows{};  // of `a`: the one before the last, the last, the present
    for (std::size_t j = 0; j <= b.size(); ++j)
        rows[1][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        Row& now = rows[2];
        now[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = rows[1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            now[j] = std::min({rows[1][j] + 1, now[j - 1] + 1, replaced});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = std::min(now[j], rows[0][j - 2] + 1);
        }
        rows[0] = rows[1];
        rows[1] = rows[2];
    }
    return rows[1][b.size()];
}

bool is_near(std::string_view a, std::string_view b, std::size_t apart) {
    constexpr std::size_t k_least_common = 3;
    const auto [shorter, longer] = std::minmax(a, b, [](auto x, auto y) { return x.size() < y.size(); });
    return apart <= longer.size() / 3 || (shorter.size() >= k_least_common && longer.starts_with(shorter));
}

/// True if `word` is `longer` with letters left out, but not its first one: "cmd" of "command".
bool is_abbreviation(std::string_view word, std::string_view longer) {
    constexpr std::size_t k_least_letters = 3;
    if (word.size() < k_least_letters || longer.empty() || word.front() != longer.front())
        return false;
    for (const char c : longer)
        word.remove_prefix(!word.empty() && word.front() == c ? 1 : 0);
    return word.empty();
}

enum class Abbreviations : std::uint8_t { strangers, near };

std::string_view find_nearest(std::string_view word, std::span<const std::string> known,
                              Abbreviations abbreviations) {
    if (word.size() > k_max_told_word_bytes)
        return {};
    const std::string meant = plain(word);
    std::string_view best;
    std::pair<int, std::size_t> least(std::numeric_limits<int>::max(), 0);
    for (const std::string& candidate : known) {
        if (candidate.size() > k_max_told_word_bytes)
            continue;
        const std::string other = plain(candidate);
        const std::size_t apart = distance(meant, other);
        const bool is_short = abbreviations == Abbreviations::near && is_abbreviation(meant, other);
        // A beginning is nearer than another abbreviation, and that nearer than a word with other letters.
        const std::pair<int, std::size_t> away(is_short ? (other.starts_with(meant) ? 0 : 1) : 2, apart);
        if (away < least && (is_short || is_near(meant, other, apart))) {
            best = candidate;
            least = away;
        }
    }
    return best;
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string> known) {
    return find_nearest(word, known, Abbreviations::strangers);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string_view quote,
                         std::string_view otherwise) {
    const std::string_view found = find_nearest(word, known, Abbreviations::near);
    if (found.empty())
        return std::string(otherwise);
    return "; did you mean " + std::string(quote) + std::string(found) + std::string(quote) + "?";
}

std::string those_there_are(std::string_view subject, std::span<const std::string> known) {
    std::string text;
    for (std::size_t at = 0; at < known.size(); ++at) {
        const auto before = known.first(at);
        if (std::find(before.begin(), before.end(), known[at]) == before.end())
            text.append(text.empty() ? "`" : ", `").append(known[at]).append("`");
    }
    return text.empty() ? text : " The " + std::string(subject) + " are " + text + ".";
}

}  // namespace atl::base
