// Helpers of the fuzz targets: an invariant that stops the run, and an input that is taken apart piece by
// piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace atl::fuzz {

/// Ends the run with `what` and a stack trace, which libFuzzer answers by keeping the input.
void require(bool holds, std::string_view what);

/// The bytes of a run: a few choices from the front, the rest as text.
class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : text_(reinterpret_cast<const char*>(data), size) {}
    /// 0 once there is nothing left.
    std::uint8_t byte();
    std::string_view rest() const { return text_; }

  private:
    std::string_view text_;
};

/// `text` in pieces whose sizes follow from `seed`: 0 is one piece, 1 is byte by byte.
std::vector<std::string_view> cut(std::string_view text, std::uint8_t seed);

/// The result of nlohmann's own document reader for `text`, with facts that it does not report by itself.
/// Only the top level is kept: no code here recurses into hostile nesting.
struct Document {
    bool accepted = false;
    std::size_t depth = 0;         // 1 for {} or []
    bool repeats_a_name = false;   // anywhere
    bool has_wide_double = false;  // 2^53 or more: it may be an integer that lost digits
    std::vector<std::string> top_names;
    nlohmann::json value;
};
Document read_document(std::string_view text);

}  // namespace atl::fuzz
