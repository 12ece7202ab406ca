#include "core/base/log.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace atl::base {

LogLine::LogLine(std::string_view event) : text_("evt=") {
    text_ += event;
}

LogLine& LogLine::field(std::string_view key, std::string_view value) {
    const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
        return c > ' ' && c < 0x7f && c != '"' && c != '=';
    });
    if (!plain)
        return quoted(key, value);
    text_ += ' ';
    text_ += key;
    text_ += '=';
    text_ += value;
    return *this;
}

LogLine& LogLine::field(std::string_view key, std::int64_t value) {
    fmt::format_to(std::back_inserter(text_), " {}={}", key, value);
    return *this;
}

LogLine& LogLine::quoted(std::string_view key, std::string_view hostile) {
    text_ += ' ';
    text_ += key;
    text_ += "=\"";
    text_ += escaped(hostile);
    text_ += '"';
    return *this;
}

std::string escaped(std::string_view hostile, std::size_t limit_bytes) {
    std::string out;
    for (const char c : hostile.substr(0, limit_bytes)) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (byte < 0x20 || byte >= 0x7f) {
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
        } else {
            out += c;
        }
    }
    if (hostile.size() > limit_bytes)
        out += "...";
    return out;
}

}  // namespace atl::base
