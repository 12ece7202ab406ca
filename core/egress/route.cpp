#include "core/egress/route.hpp"

#include <algorithm>
#include <array>

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

// "." and "..", also with the parameters behind a ";" that some servers take off (RFC 3986 section 3.3).
bool is_dots(std::string_view segment) noexcept {
    segment = segment.substr(0, segment.find(';'));
    return segment == "." || segment == "..";
}

bool has_hidden_mark(std::string_view path) noexcept {
    for (auto at = path.find('%'); at != std::string_view::npos; at = path.find('%', at + 1)) {
        const std::string_view digits = path.substr(at + 1, 2);
        if (digits.size() < 2 || is_same_name(digits, "2e") || is_same_name(digits, "2f") ||
            is_same_name(digits, "5c"))
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
