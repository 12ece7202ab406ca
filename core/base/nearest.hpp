// The known word that someone who wrote another one most likely meant: for "did you mean" in answers to
// typing errors.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace atl::base {

/// The one of `known` that is nearest to `word`; empty if none is near. Case, '-' and '_' do not count. Near
/// is a distance of at most a third of the longer word (insertions, deletions, replacements and swaps of two
/// neighbours), or a common beginning of at least 3 characters of which one word consists. Words beyond
/// k_max_told_word_bytes have no near one. The view is into `known`.
std::string_view nearest(std::string_view word, std::span<const std::string> known);

/// "; did you mean QUOTEnearestQUOTE?", or `otherwise` if none is near. Abbreviations of at least 3 letters
/// are near here, and before all else: "cmd" is "command", not "cwd".
std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string_view quote,
                         std::string_view otherwise);

/// " The SUBJECT are `a`, `b`.", each word once; empty if there are none.
std::string those_there_are(std::string_view subject, std::span<const std::string> known);

}  // namespace atl::base
