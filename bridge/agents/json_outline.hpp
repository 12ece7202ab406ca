// The outline of a JSON text that is too long to be kept: who waits for what the text says finds the short
// members of its first two levels, wherever they stand. Pure; its memory is bounded, whatever the text is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace atl::guest {

/// Longer strings are empty in an outline.
inline constexpr std::size_t k_outline_string_bytes = 1024;
/// An outline ends there, as a text that was cut.
inline constexpr std::size_t k_max_outline_bytes = 64UL * 1024;

class JsonOutline {
  public:
    /// The next bytes of the text, cut anywhere.
    void feed(std::string_view bytes);
    /// The text so far without white space. An object or an array below the second level is null. It is well
    /// formed where the text is, unless it met its bound.
    const std::string& text() const noexcept { return text_; }

  private:
    std::size_t take_string(std::string_view bytes);
    void take_other(char c);
    void keep(std::string_view bytes);

    std::string text_;
    std::size_t depth_ = 0;
    bool in_string_ = false;
    bool is_escaped_ = false;       // the next byte of the string is
    bool is_cut_ = false;           // the string is too long
    std::size_t string_begin_ = 0;  // in `text_`
};

}  // namespace atl::guest
