// Paths as JSON can hold them. A path on disk is bytes; JSON text is UTF-8. Three forms, each for its
// readers:
// - path text, between server and guest, in cursors and in the tools: a byte that is part of no UTF-8
//   character is `%XX`, and a `%` that stands before two hexadecimal digits is `%25`; everything else stands
//   for itself. So any path has a text that leads back to it;
// - the shown path, in what the API tells of files: the path as it is, with U+FFFD for what is not UTF-8. It
//   does not always lead back;
// - the href, beside it: percent-encoded, exact.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/plain/utf8.hpp"

namespace atl::base {

/// The value of a hexadecimal digit, or -1.
constexpr int hex_value(char digit) noexcept {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/// True where `text` has `%XX` at `at`.
constexpr bool has_escape(std::string_view text, std::size_t at) noexcept {
    return text.size() - at > 2 && text[at] == '%' && hex_value(text[at + 1]) >= 0 &&
           hex_value(text[at + 2]) >= 0;
}

/// The size of the UTF-8 character at `at`, in bytes; 0: there is none.
inline std::size_t character_size(std::string_view text, std::size_t at) noexcept {
    Utf8State state;
    for (std::size_t size = 1; at + size <= text.size(); ++size) {
        if (!state.feed(static_cast<unsigned char>(text[at + size - 1])))
            return 0;
        if (state.is_between_characters())
            return size;
    }
    return 0;
}

/// Appends the text of the path `bytes`: valid UTF-8, at most three bytes for each one.
inline void append_path_text(std::string& out, std::string_view bytes) {
    static constexpr char k_hex[] = "0123456789ABCDEF";
    for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t size = character_size(bytes, at);
        if (size > 0 && !has_escape(bytes, at)) {
            out.append(bytes.substr(at, size));
            at += size;
            continue;
        }
        const auto byte = static_cast<unsigned char>(bytes[at++]);
        out.append({'%', k_hex[byte >> 4], k_hex[byte & 15]});
    }
}

inline std::string path_text(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size());
    append_path_text(out, bytes);
    return out;
}

/// The path as people read it: each malformed part is U+FFFD.
inline std::string shown_path(std::string_view bytes) {
    std::string out;
    Utf8Repair repair;
    repair.feed(bytes, out);
    repair.finish(out);
    return out;
}

/// The path as a part of a URL: every byte but `/` and what a URL leaves as it is (RFC 3986 section 2.3) is
/// `%XX`, so one percent-decoding gives the bytes back.
inline std::string path_href(std::string_view bytes) {
    static constexpr char k_hex[] = "0123456789ABCDEF";
    static constexpr std::string_view k_others = "/-._~";
    std::string out;
    out.reserve(bytes.size());
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                              k_others.find(c) != std::string_view::npos;
        if (is_plain)
            out.push_back(c);
        else
            out.append({'%', k_hex[byte >> 4], k_hex[byte & 15]});
    }
    return out;
}

/// The path that a text stands for. Any text stands for one.
inline std::string path_bytes(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (!has_escape(text, at)) {
            out.push_back(text[at]);
            continue;
        }
        out.push_back(static_cast<char>(hex_value(text[at + 1]) << 4 | hex_value(text[at + 2])));
        at += 2;
    }
    return out;
}

}  // namespace atl::base
