#include "core/egress/route.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "core/egress/limits.hpp"
#include "core/egress/pattern.hpp"

namespace atl::egress {
namespace {

constexpr std::string_view k_http_scheme = "http://";
constexpr std::string_view k_https_scheme = "https://";

constexpr std::string_view k_token_marks = "!#$%&'*+-.^_`|~";

// The headers of a connection, of the framing and of the target are the server's own.
constexpr std::array<std::string_view, 14> k_fixed_headers{"connection",
                                                           "content-length",
                                                           "expect",
                                                           "host",
                                                           "http2-settings",
                                                           "keep-alive",
                                                           "proxy-connection",
                                                           "proxy-authenticate",
                                                           "transfer-encoding",
                                                           "te",
                                                           "trailer",
                                                           "upgrade",
                                                           "proxy-authorization",
                                                           "date"};

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_alphanumeric(char c) noexcept {
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9');
}

bool is_token(std::string_view text, std::size_t limit) noexcept {
    return !text.empty() && text.size() <= limit && std::all_of(text.begin(), text.end(), [](char c) {
        return is_alphanumeric(c) || k_token_marks.find(c) != std::string_view::npos;
    });
}

bool is_same_name(std::string_view a, std::string_view b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return lower(x) == lower(y); });
}

// "." and "..", also with something behind that some servers take off: the parameters behind a ";" (RFC 3986
// section 3.3), or an encoded space.
bool is_dots(std::string_view segment) noexcept {
    segment = segment.substr(0, segment.find_first_of(";%"));
    return segment == "." || segment == "..";
}

/// The byte that two hexadecimal digits at the beginning of `text` stand for; nothing: there are none.
std::optional<std::uint8_t> hex_byte(std::string_view text) noexcept {
    std::uint8_t byte = 0;
    const std::string_view digits = text.substr(0, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    return error == std::errc() && end == digits.data() + 2 ? std::optional(byte) : std::nullopt;
}

/// True if `byte`, with `rest` behind it, begins no character of UTF-8 (RFC 3629 section 3): servers that
/// read it nevertheless find "." and "/" in longer forms.
bool is_overlong(std::uint8_t byte, std::string_view rest) noexcept {
    const std::uint8_t next = rest.starts_with('%') ? hex_byte(rest.substr(1)).value_or(0) : std::uint8_t{0};
    return byte == 0xc0 || byte == 0xc1 || byte > 0xf4 || (byte == 0xe0 && next < 0xa0) ||
           (byte == 0xf0 && next < 0x90);
}

/// True for an encoded ".", "/", "\" or control character, also where the "%" is encoded once more.
bool has_hidden_mark(std::string_view path) noexcept {
    for (auto at = path.find('%'); at != std::string_view::npos; at = path.find('%', at + 1)) {
        std::string_view rest = path.substr(at + 1);
        while (rest.starts_with("25"))
            rest.remove_prefix(2);
        const auto byte = hex_byte(rest);
        // "%25" alone is a percent sign.
        const bool is_hidden = byte ? *byte < ' ' || *byte == '\x7f' || *byte == '.' || *byte == '/' ||
                                          *byte == '\\' || is_overlong(*byte, rest.substr(2))
                                    : rest.size() + at + 1 == path.size();
        if (is_hidden)
            return true;
    }
    return false;
}

bool is_path(std::string_view path, std::size_t limit) noexcept {
    return path.starts_with('/') && path.size() <= limit &&
           std::all_of(path.begin(), path.end(),
                       [](char c) { return c > ' ' && c < '\x7f' && c != '?' && c != '#'; }) &&
           !is_ambiguous_path(path);
}

}  // namespace

std::string Upstream::authority() const {
    const std::uint16_t usual = scheme == Scheme::https ? k_https_port : k_http_port;
    return endpoint.port == usual ? endpoint.host.in_url() : endpoint.text();
}

std::string Upstream::text() const {
    return std::string(scheme == Scheme::https ? k_https_scheme : k_http_scheme) + authority() + prefix;
}

std::optional<Upstream> parse_upstream(std::string_view text) {
    Upstream upstream;
    if (text.starts_with(k_http_scheme))
        upstream.scheme = Scheme::http;
    else if (!text.starts_with(k_https_scheme))
        return std::nullopt;
    const bool is_secure = upstream.scheme == Scheme::https;
    text.remove_prefix((is_secure ? k_https_scheme : k_http_scheme).size());
    const auto slash = std::min(text.find('/'), text.size());
    auto endpoint = parse_endpoint(text.substr(0, slash), is_secure ? k_https_port : k_http_port);
    if (!endpoint)
        return std::nullopt;
    upstream.endpoint = std::move(*endpoint);
    std::string_view path = text.substr(slash);
    if (!path.empty() && !is_path(path, k_max_path_bytes))
        return std::nullopt;
    if (path.ends_with('/'))
        path.remove_suffix(1);
    upstream.prefix = path;
    return upstream;
}

bool is_route_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= k_max_route_name_bytes &&
           std::all_of(name.begin(), name.end(),
                       [](char c) { return is_alphanumeric(c) || c == '_' || c == '-'; });
}

bool is_route_method(std::string_view method) noexcept {
    return is_token(method, k_max_method_bytes) && method != "CONNECT" && method != "TRACE";
}

bool is_route_header(std::string_view name) noexcept {
    return is_token(name, k_max_header_name_bytes) &&
           std::none_of(k_fixed_headers.begin(), k_fixed_headers.end(),
                        [&](std::string_view fixed) { return is_same_name(name, fixed); });
}

bool is_header_value(std::string_view value) noexcept {
    return std::all_of(value.begin(), value.end(),
                       [](char c) { return (c >= ' ' && c < '\x7f') || c == '\t'; });
}

bool is_ambiguous_path(std::string_view path) noexcept {
    if (path.find('\\') != std::string_view::npos || path.find("//") != std::string_view::npos ||
        has_hidden_mark(path))
        return true;
    while (!path.empty()) {
        const auto slash = std::min(path.find('/'), path.size());
        if (is_dots(path.substr(0, slash)))
            return true;
        path.remove_prefix(std::min(slash + 1, path.size()));
    }
    return false;
}

bool is_path_pattern(std::string_view pattern) noexcept {
    const std::string_view path = pattern.substr(0, pattern.size() - (pattern.ends_with('*') ? 1 : 0));
    return path.find('*') == std::string_view::npos && is_path(path, k_max_path_bytes);
}

bool matches_path(std::string_view pattern, std::string_view path) noexcept {
    if (pattern.ends_with('*'))
        return path.starts_with(pattern.substr(0, pattern.size() - 1));
    return path == pattern;
}

}  // namespace atl::egress
