// Strings of JSON text (RFC 8259 section 7): the one escape of the project. Header only: the guest, which
// links nothing of the server's, has it too.
#pragma once

#include <string>
#include <string_view>

namespace atl::base {

/// Appends `text` as a JSON string with its quotes. `text` must be UTF-8, which passes untouched.
inline void append_json_string(std::string& out, std::string_view text) {
    static constexpr char k_hex[] = "0123456789abcdef";
    out.push_back('"');
    std::size_t run = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        out.append(text.substr(run, i - run));
        run = i + 1;
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
            default:
                out.append("u00").push_back(k_hex[byte >> 4]);
                out.push_back(k_hex[byte & 15]);
        }
    }
    out.append(text.substr(run));
    out.push_back('"');
}

}  // namespace atl::base
