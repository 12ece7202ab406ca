// UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, at most U+10FFFF. The project has this one
// check and this one repair; the input is hostile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace atl::base {

/// The state of a text within a character, byte by byte (The Unicode Standard, table 3-7: only the byte after
/// the lead has a range of its own).
class Utf8State {
  public:
    /// False where no well-formed text has this byte here; the state is then of no use before reset().
    bool feed(unsigned char byte) noexcept {
        if (left_ == 0)
            return begin(byte);
        if (byte < least_ || byte > most_)
            return false;
        least_ = 0x80;
        most_ = 0xBF;
        --left_;
        return true;
    }
    void reset() noexcept { *this = {}; }
    bool is_between_characters() const noexcept { return left_ == 0; }

  private:
    bool begin(unsigned char lead) noexcept {
        if (lead < 0x80)
            return true;
        if (lead < 0xC2 || lead > 0xF4)
            return false;
        left_ = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        least_ = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        most_ = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        return true;
    }

    unsigned char left_ = 0;  // continuation bytes that the character still needs
    unsigned char least_ = 0x80;
    unsigned char most_ = 0xBF;
};

/// The least number of bytes at the start of `text` that are ASCII, as far as whole words tell.
inline std::size_t ascii_run(std::string_view text) noexcept {
    std::size_t run = 0;
    for (std::uint64_t word = 0; text.size() - run >= sizeof word; run += sizeof word) {
        std::memcpy(&word, text.data() + run, sizeof word);
        if ((word & 0x8080808080808080U) != 0)
            break;
    }
    return run;
}

/// The check of a text that comes in pieces.
class Utf8Check {
  public:
    /// False as soon as no continuation could make the text well-formed; do not go on then.
    bool feed(std::string_view piece) noexcept {
        for (std::size_t i = 0; i < piece.size(); ++i) {
            if (state_.is_between_characters())
                i += ascii_run(piece.substr(i));
            if (i < piece.size() && !state_.feed(static_cast<unsigned char>(piece[i])))
                return false;
        }
        return true;
    }
    /// True if the text does not end inside a character.
    bool is_complete() const noexcept { return state_.is_between_characters(); }

  private:
    Utf8State state_;
};

inline bool is_utf8(std::string_view text) noexcept {
    Utf8Check check;
    return check.feed(text) && check.is_complete();
}

/// Makes valid UTF-8 of bytes that arrive in arbitrary pieces: a sequence cut by the end of a piece waits for
/// the next one, each maximal malformed part becomes one U+FFFD (The Unicode Standard, section 3.9).
class Utf8Repair {
  public:
    /// Appends what `bytes` completes to `out`: at most three bytes for each one, plus what was held back.
    void feed(std::string_view bytes, std::string& out) {
        out.reserve(out.size() + bytes.size());
        for (std::size_t i = 0; i < bytes.size();) {
            if (have_ == 0) {
                const std::size_t run = ascii_run(bytes.substr(i));
                out.append(bytes.substr(i, run));
                i += run;
                if (i == bytes.size())
                    return;
            }
            if (!state_.feed(static_cast<unsigned char>(bytes[i]))) {
                // A byte that breaks a character off is looked at again.
                i += have_ == 0 ? 1 : 0;
                replace(out);
                continue;
            }
            open_[have_++] = bytes[i++];
            if (state_.is_between_characters()) {
                out.append(open_.data(), have_);
                have_ = 0;
            }
        }
    }
    /// The text has ended: a character still open becomes U+FFFD.
    void finish(std::string& out) {
        if (have_ != 0)
            replace(out);
    }

  private:
    void replace(std::string& out) {
        out += "\xEF\xBF\xBD";
        have_ = 0;
        state_.reset();
    }

    Utf8State state_;
    std::array<char, 4> open_{};
    std::size_t have_ = 0;  // bytes in open_
};

/// The beginning of a hostile text, to quote in a sentence: UTF-8, at most `limit_bytes` of the text, cut
/// between characters, with "…" where it is cut. Nothing is escaped: the code that writes it into JSON or a
/// log does that, once.
inline std::string excerpt(std::string_view text, std::size_t limit_bytes) {
    const bool is_cut = text.size() > limit_bytes;
    std::string out;
    Utf8Repair repair;
    repair.feed(text.substr(0, limit_bytes), out);
    if (is_cut)
        return out += "\xE2\x80\xA6";  // a character that the cut broke is left out
    repair.finish(out);
    return out;
}

}  // namespace atl::base
