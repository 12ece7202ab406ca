#include "http/wire/byte_range.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

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
std::optional<RangeSpec> spec_of(std::string_view text) {
    const auto dash = text.find('-');
    if (dash == std::string_view::npos)
        return std::nullopt;
    RangeSpec spec;
    spec.first = position(text.substr(0, dash));
    spec.last = position(text.substr(dash + 1));
    if (dash == 0) {
        if (!spec.last)
            return std::nullopt;
        spec.suffix = *std::exchange(spec.last, std::nullopt);
        return spec;
    }
    const bool is_open = dash + 1 == text.size();
    if (!spec.first || (!spec.last && !is_open) || (spec.last && *spec.last < *spec.first))
        return std::nullopt;
    return spec;
}

}  // namespace

std::optional<RangeSpec> asked_range(const Request& request) {
    constexpr std::string_view k_unit = "bytes=";
    const auto field = request.header("Range");
    const auto fields = std::count_if(request.fields.begin(), request.fields.end(),
                                      [](const HeaderField& f) { return iequals(f.name, "Range"); });
    // Section 14.2: GET is the only method that ranges are defined for.
    if (fields != 1 || request.method != Method::get || field.size() < k_unit.size() ||
        !iequals(field.substr(0, k_unit.size()), k_unit))
        return std::nullopt;
    auto spec = spec_of(trimmed(field.substr(k_unit.size())));
    if (!spec || !request.has_header("If-Range"))
        return spec;
    spec->if_range = request.header("If-Range");
    const bool is_strong =
        spec->if_range.size() >= 2 && spec->if_range.front() == '"' && spec->if_range.back() == '"';
    return is_strong ? spec : std::nullopt;
}

ByteRange choose_range(const Request& request, std::uint64_t size_bytes, std::string_view etag) {
    const auto spec = asked_range(request);
    if (!spec || size_bytes == 0 || (!spec->if_range.empty() && spec->if_range != etag))
        return whole(size_bytes);
    if (!spec->first) {
        if (spec->suffix == 0)
            return {ByteRange::Kind::unsatisfiable};
        const auto length = std::min(spec->suffix, size_bytes);
        return {ByteRange::Kind::part, size_bytes - length, length};
    }
    if (*spec->first >= size_bytes)
        return {ByteRange::Kind::unsatisfiable};
    const auto end = std::min(spec->last.value_or(k_most), size_bytes - 1);
    return {ByteRange::Kind::part, *spec->first, end - *spec->first + 1};
}

void set_range(Response& response, const ByteRange& range, std::uint64_t size_bytes) {
    const auto size = std::to_string(size_bytes);
    response.headers.emplace_back("Accept-Ranges", "bytes");
    switch (range.kind) {
        case ByteRange::Kind::whole:
            response.length = range.length;
            return;
        case ByteRange::Kind::part:
            response.length = range.length;
            response.status = 206;
            response.headers.emplace_back("Content-Range",
                                          "bytes " + std::to_string(range.offset) + '-' +
                                              std::to_string(range.offset + range.length - 1) + '/' + size);
            return;
        case ByteRange::Kind::unsatisfiable:
            response.status = 416;
            response.headers.emplace_back("Content-Range", "bytes */" + size);
            return;
    }
}

}  // namespace atl::http
