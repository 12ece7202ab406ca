#include "http/wire/json_writer.hpp"

#include <fmt/format.h>

#include <iterator>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

void append_escaped(std::string& out, char c) {
    switch (c) {
        case '"':
            out += "\\\"";
            break;
        case '\\':
            out += "\\\\";
            break;
        case '\n':
            out += "\\n";
            break;
        case '\r':
            out += "\\r";
            break;
        case '\t':
            out += "\\t";
            break;
        default:
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
    }
}

bool needs_escape(char c) noexcept {
    return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
}

// The bytes of `text` that are not part of a well-formed sequence become U+FFFD.
std::string repaired(std::string_view text) {
    constexpr std::size_t k_longest_sequence = 4;
    std::string out;
    while (!text.empty()) {
        std::size_t length = 1;
        while (length <= k_longest_sequence && length <= text.size() && !is_utf8(text.substr(0, length)))
            ++length;
        const bool good = length <= k_longest_sequence && length <= text.size();
        out += good ? text.substr(0, length) : std::string_view("\xEF\xBF\xBD");
        text.remove_prefix(good ? length : 1);
    }
    return out;
}

}  // namespace

void JsonWriter::separate() {
    if (!first_)
        out_ += ',';
    first_ = false;
}

JsonWriter& JsonWriter::begin_object() {
    separate();
    out_ += '{';
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::end_object() {
    out_ += '}';
    first_ = false;
    return *this;
}

JsonWriter& JsonWriter::begin_array() {
    separate();
    out_ += '[';
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::end_array() {
    out_ += ']';
    first_ = false;
    return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
    string(name);
    out_ += ':';
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
    separate();
    std::string fixed;
    if (!is_utf8(text)) {
        fixed = repaired(text);
        text = fixed;
    }
    out_ += '"';
    std::size_t plain = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!needs_escape(text[i]))
            continue;
        out_ += text.substr(plain, i - plain);
        append_escaped(out_, text[i]);
        plain = i + 1;
    }
    out_ += text.substr(plain);
    out_ += '"';
    return *this;
}

JsonWriter& JsonWriter::string_or_null(const std::optional<std::string>& text) {
    return text ? string(*text) : null();
}

JsonWriter& JsonWriter::number(std::uint64_t value) {
    separate();
    fmt::format_to(std::back_inserter(out_), "{}", value);
    return *this;
}

JsonWriter& JsonWriter::null() {
    return raw("null");
}

JsonWriter& JsonWriter::raw(std::string_view json) {
    separate();
    out_ += json;
    return *this;
}

}  // namespace atl::http
