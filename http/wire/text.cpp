#include "http/wire/text.hpp"
#include "core/plain/utf8.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace atl::http {
namespace {

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

int hex_value(char c) noexcept {
    if (c >= '0' && c <= '9')
        return c - '0';
    const char l = lower(c);
    return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

// The byte that `text` begins with a triplet for; -1: it begins with none.
int byte_of_triplet(std::string_view text) noexcept {
    if (text.size() < 3 || text[0] != '%' || hex_value(text[1]) < 0 || hex_value(text[2]) < 0)
        return -1;
    return hex_value(text[1]) * 16 + hex_value(text[2]);
}

std::optional<std::string> form_decoded(std::string_view text) {
    std::string spaced(text);
    std::replace(spaced.begin(), spaced.end(), '+', ' ');
    return percent_decoded(spaced);
}

}  // namespace

bool iequals(std::string_view a, std::string_view b) noexcept {
    return a.size() == b.size() &&
           std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) noexcept {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view take_element(std::string_view& list, char separator) noexcept {
    const auto end = list.find(separator);
    const auto element = trimmed(list.substr(0, end));
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
    return element;
}

std::optional<std::string> percent_decoded(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        const int byte = byte_of_triplet(text.substr(i));
        if (byte < 0)
            return std::nullopt;
        out += static_cast<char>(byte);
        i += 2;
    }
    return out;
}

std::string loosely_percent_decoded(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int byte = byte_of_triplet(text.substr(i));
        out += byte < 0 ? text[i] : static_cast<char>(byte);
        i += byte < 0 ? 0 : 2;
    }
    return out;
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) noexcept {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || stop != end)
        return std::nullopt;
    return value;
}

bool is_visible_ascii(std::string_view text, std::size_t limit) noexcept {
    return !text.empty() && text.size() <= limit &&
           std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

std::optional<std::string_view> host_without_port(std::string_view authority) noexcept {
    const auto bracket = authority.rfind(']');
    const auto colon = authority.rfind(':');
    if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket))
        return authority;
    const auto port = authority.substr(colon + 1);
    if (!port.empty() && !parse_decimal(port))
        return std::nullopt;
    return authority.substr(0, colon);
}

std::optional<QueryItems> parse_query(std::string_view query) {
    QueryItems items;
    while (!query.empty()) {
        const auto end = query.find('&');
        const auto pair = query.substr(0, end);
        query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
        if (pair.empty())
            continue;
        const auto equals = pair.find('=');
        auto name = form_decoded(pair.substr(0, equals));
        auto value =
            form_decoded(equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1));
        if (!name || !base::is_utf8(*name) || !value)
            return std::nullopt;
        items.emplace_back(std::move(*name), std::move(*value));
    }
    return items;
}

const std::string* find_item(const QueryItems& items, std::string_view name) noexcept {
    const auto found =
        std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == name; });
    return found == items.end() ? nullptr : &found->second;
}

}  // namespace atl::http
