#include "http/wire/byte_range.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

constexpr std::uint64_t k_most = std::numeric_limits<std::uint64_t>::max();

// A number of digits only; one that does not fit is the greatest that does. Nothing for anything else.
std::optional<std::uint64_t> position(std::string_view text) {
    const bool is_number =
        !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number)
        return std::nullopt;
    return parse_decimal(text).value_or(k_most);
}

ByteRange whole(std::uint64_t size) {
    return {ByteRange::Kind::whole, 0, size};
}

// "0-99", "100-" and "-500" of RFC 9110 section 14.1.2.
ByteRange range_of(std::string_view spec, std::uint64_t size) {
    const auto dash = spec.find('-');
    if (dash == std::string_view::npos)
        return whole(size);
    const auto first = position(spec.substr(0, dash));
    const auto last = position(spec.substr(dash + 1));
    if (dash == 0) {
        if (!last)
            return whole(size);
        if (*last == 0)
            return {ByteRange::Kind::unsatisfiable};
        const auto length = std::min(*last, size);
        return {ByteRange::Kind::part, size - length, length};
    }
    const bool is_open = dash + 1 == spec.size();
    if (!first || (!last && !is_open) || (last && *last < *first))
        return whole(size);
    if (*first >= size)
        return {ByteRange::Kind::unsatisfiable};
    const auto end = std::min(last.value_or(k_most), size - 1);
    return {ByteRange::Kind::part, *first, end - *first + 1};
}

}  // namespace

ByteRange choose_range(const Request& request, std::uint64_t size_bytes, std::string_view etag) {
    constexpr std::string_view k_unit = "bytes=";
    const auto field = request.header("Range");
    const auto fields = std::count_if(request.fields.begin(), request.fields.end(),
                                      [](const HeaderField& f) { return iequals(f.name, "Range"); });
    // Section 14.2: GET is the only method that ranges are defined for.
    if (fields != 1 || size_bytes == 0 || request.method != Method::get || field.size() < k_unit.size() ||
        !iequals(field.substr(0, k_unit.size()), k_unit))
        return whole(size_bytes);
    if (request.has_header("If-Range")) {
        const auto condition = request.header("If-Range");
        const bool is_strong = condition.size() >= 2 && condition.front() == '"' && condition.back() == '"';
        if (!is_strong || condition != etag)
            return whole(size_bytes);
    }
    return range_of(trimmed(field.substr(k_unit.size())), size_bytes);
}

void set_range(Response& response, const ByteRange& range, std::uint64_t size_bytes) {
    const auto size = std::to_string(size_bytes);
    response.headers.emplace_back("Accept-Ranges", "bytes");
    response.length = range.length;
    switch (range.kind) {
        case ByteRange::Kind::whole:
            return;
        case ByteRange::Kind::part:
            response.status = 206;
            response.headers.emplace_back("Content-Range",
                                          "bytes " + std::to_string(range.offset) + '-' +
                                              std::to_string(range.offset + range.length - 1) + '/' + size);
            return;
        case ByteRange::Kind::unsatisfiable:
            response.status = 416;
            response.content_type = {};
            response.headers.emplace_back("Content-Range", "bytes */" + size);
            return;
    }
}

}  // namespace atl::http
