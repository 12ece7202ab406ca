// Globs over paths: `*` and `?` stay within a name, `**` crosses directories, `{a,b}` is either, `[ab]` one
// of the characters or the text itself, `\` takes the next character literally. What is not well-formed is
// literal. Matching takes time in proportion to path times pattern, whatever the pattern: it follows all of
// its readings at once and never goes back. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace atl::guest {

class GlobPattern {
  public:
    enum class Case : std::uint8_t { differs, ignored };  // of ASCII letters
    /// The meaning of `[ab]`. set: one of the characters; either: that or the text "[ab]".
    enum class Brackets : std::uint8_t { set, either };

    GlobPattern(std::string_view glob, Case letters, Brackets brackets);

    /// True if all of `path` matches, which has no slash at its ends.
    bool matches(std::string_view path) const;
    /// The most steps that a byte of a path may cost.
    std::size_t cost() const noexcept { return nodes_.size(); }

  private:
    enum class Kind : std::uint8_t {
        character,  // exactly this one
        in_name,    // any but a slash
        any,        // any
        set,        // one of a set
        fork,       // nothing: goes on at both ends
        end,
    };
    struct Node {
        Kind kind;
        unsigned char byte = 0;
        std::uint32_t set = 0;  // index
        std::uint32_t next = 0;
        std::uint32_t other = 0;  // of a fork
    };
    struct Set {
        std::array<bool, 256> bytes{};
    };
    class Compiler;
    class States;

    Case letters_;
    std::vector<Node> nodes_;
    std::vector<Set> sets_;
    std::uint32_t start_ = 0;
};

/// The work of matching since others had their turn, so that long globs and long paths do not keep them
/// waiting.
class GlobWork {
  public:
    /// The steps after which others are to have their turn: some ten milliseconds.
    static constexpr std::size_t k_steps_per_turn = 2'000'000;

    /// Counts a name, whose match costs `steps` besides what every name costs. True: it is time for a turn,
    /// and the counting begins again.
    bool add(std::size_t steps) noexcept {
        steps_ += steps + k_steps_per_name;
        if (steps_ < k_steps_per_turn)
            return false;
        steps_ = 0;
        return true;
    }

  private:
    static constexpr std::size_t k_steps_per_name = 4000;

    std::size_t steps_ = 0;
};

}  // namespace atl::guest
