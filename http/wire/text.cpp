#include "http/wire/text.hpp"

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

// Bytes of the well-formed sequence at the start of `text`, 0 if there is none (Unicode, table 3-7).
std::size_t utf8_sequence(std::string_view text) noexcept {
    const auto at = [&](std::size_t i) {
        return static_cast<unsigned char>(i < text.size() ? text[i] : '\0');
    };
    const auto follows = [&](std::size_t i) { return (at(i) & 0xC0U) == 0x80U; };
    const unsigned lead = at(0);
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        return follows(1) ? 2 : 0;
    if (lead >= 0xE0 && lead <= 0xEF) {
        const bool second = follows(1) && !(lead == 0xE0 && at(1) < 0xA0) && !(lead == 0xED && at(1) > 0x9F);
        return second && follows(2) ? 3 : 0;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        const bool second = follows(1) && !(lead == 0xF0 && at(1) < 0x90) && !(lead == 0xF4 && at(1) > 0x8F);
        return second && follows(2) && follows(3) ? 4 : 0;
    }
    return 0;
}

std::optional<std::string> form_decoded(std::string_view text) {
    std::string spaced(text);
    std::replace(spaced.begin(), spaced.end(), '+', ' ');
    auto decoded = percent_decoded(spaced);
    if (decoded && !is_utf8(*decoded))
        return std::nullopt;
    return decoded;
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
        if (text.size() - i < 3 || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0)
            return std::nullopt;
        out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
        i += 2;
    }
    return out;
}

bool is_utf8(std::string_view text) noexcept {
    while (!text.empty()) {
        std::uint64_t word = 0;
        if (text.size() >= sizeof word) {
            std::memcpy(&word, text.data(), sizeof word);
            if ((word & 0x8080808080808080U) == 0) {
                text.remove_prefix(sizeof word);
                continue;
            }
        }
        const auto length = utf8_sequence(text);
        if (length == 0)
            return false;
        text.remove_prefix(length);
    }
    return true;
}

// The Unicode Standard, table 3-7: only the byte after the lead has a range of its own.
bool Utf8Check::begin(unsigned char lead) noexcept {
    least_ = 0x80;
    most_ = 0xbf;
    if (lead < 0x80)
        return true;
    if (lead < 0xc2 || lead > 0xf4)
        return false;
    left_ = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (lead == 0xe0)
        least_ = 0xa0;
    else if (lead == 0xed)
        most_ = 0x9f;
    else if (lead == 0xf0)
        least_ = 0x90;
    else if (lead == 0xf4)
        most_ = 0x8f;
    return true;
}

bool Utf8Check::feed(std::string_view piece) noexcept {
    for (std::size_t i = 0; i < piece.size(); ++i) {
        std::uint64_t word = 0;
        while (left_ == 0 && piece.size() - i > sizeof word) {
            std::memcpy(&word, piece.data() + i, sizeof word);
            if ((word & 0x8080808080808080U) != 0)
                break;
            i += sizeof word;
        }
        const auto byte = static_cast<unsigned char>(piece[i]);
        if (left_ == 0) {
            if (!begin(byte))
                return false;
            continue;
        }
        if (byte < least_ || byte > most_)
            return false;
        least_ = 0x80;
        most_ = 0xbf;
        --left_;
    }
    return true;
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
        if (!name || !value)
            return std::nullopt;
        items.emplace_back(std::move(*name), std::move(*value));
    }
    return items;
}

}  // namespace atl::http
