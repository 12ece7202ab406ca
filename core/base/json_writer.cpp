#include "core/base/json_writer.hpp"

#include <fmt/format.h>

#include <iterator>

#include "core/plain/json_text.hpp"
#include "core/plain/utf8.hpp"

namespace atl::base {
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
    if (is_utf8(text)) {
        append_json_string(out_, text);
        return *this;
    }
    std::string repaired;
    Utf8Repair repair;
    repair.feed(text, repaired);
    repair.finish(repaired);
    append_json_string(out_, repaired);
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

}  // namespace atl::base
