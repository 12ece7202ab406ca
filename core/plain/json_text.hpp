// Strings of JSON text (RFC 8259 section 7): the one escape of the project.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace atl::base {

/// The number of bytes at the start of `text` that a JSON string holds as they are. In the last word of
/// `text` it may stop early.
inline std::size_t plain_run(std::string_view text) noexcept {
    static_assert(std::endian::native == std::endian::little);
    constexpr std::uint64_t k_each = 0x0101010101010101U;
    constexpr std::uint64_t k_high = 0x80 * k_each;
    std::size_t run = 0;
    for (std::uint64_t word = 0; text.size() - run >= sizeof word; run += sizeof word) {
        std::memcpy(&word, text.data() + run, sizeof word);
        // `found` has the high bit of each byte below a bound. A borrow reaches only bytes behind the first
        // one.
        const std::uint64_t quotes = word ^ '"' * k_each;
        const std::uint64_t backslashes = word ^ '\\' * k_each;
        const std::uint64_t found = (((word - 0x20 * k_each) & ~word) | ((quotes - k_each) & ~quotes) |
                                     ((backslashes - k_each) & ~backslashes)) &
                                    k_high;
        if (found != 0)
            return run + static_cast<std::size_t>(std::countr_zero(found)) / 8;
    }
    return run;
}

/// Appends `text` as a JSON string with its quotes. `text` must be UTF-8, which passes untouched. No other
/// JSON of it is shorter; at most 6 bytes for each one.
inline void append_json_string(std::string& out, std::string_view text) {
    static constexpr char k_hex[] = "0123456789abcdef";
    out.reserve(out.size() + text.size() + text.size() / 16 + 2);  // most of its escapes, too
    out.push_back('"');
    std::size_t run = 0;
    for (std::size_t i = plain_run(text); i < text.size(); i += plain_run(text.substr(i))) {
        const auto byte = static_cast<unsigned char>(text[i++]);
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        out.append(text.substr(run, i - 1 - run));
        run = i;
        out.push_back('\\');
        switch (byte) {
            case '"':
            case '\\':
                out.push_back(static_cast<char>(byte));
                break;
            case '\n':
                out.push_back('n');
                break;
            case '\t':
                out.push_back('t');
                break;
            case '\r':
                out.push_back('r');
                break;
            case '\b':
                out.push_back('b');
                break;
            case '\f':
                out.push_back('f');
                break;
            default:
                out.append("u00").push_back(k_hex[byte >> 4]);
                out.push_back(k_hex[byte & 15]);
        }
    }
    out.append(text.substr(run));
    out.push_back('"');
}

}  // namespace atl::base
