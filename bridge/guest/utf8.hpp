// Makes valid UTF-8 of a byte stream that arrives in arbitrary pieces: a sequence cut by the end of a piece
// waits for the next one, every maximal malformed part becomes one U+FFFD (Unicode standard, section 3.9).
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace atl::guest {

class Utf8Repair {
  public:
    /// Appends what `bytes` completes to `out`: at most three bytes for each one, plus what was held back.
    void feed(std::string_view bytes, std::string& out);
    /// The stream has ended: a sequence still open becomes U+FFFD.
    void finish(std::string& out);

  private:
    bool accepts(unsigned char byte) const noexcept { return byte >= lowest_ && byte <= highest_; }
    void begin(unsigned char byte, std::string& out);
    void replace(std::string& out);

    std::array<char, 4> open_{};
    std::size_t have_ = 0;         // bytes in open_
    std::size_t need_ = 0;         // continuation bytes still missing
    unsigned char lowest_ = 0x80;  // what the next continuation byte may be
    unsigned char highest_ = 0xBF;
};

}  // namespace atl::guest
