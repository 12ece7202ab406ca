// Routes: upstreams that programs inside a sandbox reach by a path of the server's, which adds headers that
// they do not see. Every text is hostile: what a rule is compared with is what goes to the upstream, and a
// path that servers read in more than one way meets no rule. Pure functions. Not here: who may name an
// upstream (ceilings.hpp), the values of secrets, requests (http/egress).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/egress/host.hpp"

namespace atl::egress {

enum class Scheme : std::uint8_t { http, https };

/// Where the requests of a route go: "https://api.example.com", "http://192.0.2.7:8080/v1".
struct Upstream {
    Scheme scheme = Scheme::https;
    Endpoint endpoint;
    std::string prefix;  // stands before each path: "/v1", without a slash at its end; empty: none

    /// The host, and the port unless it is the scheme's own: as Host has it (RFC 9110 section 7.2).
    std::string authority() const;
    /// The one spelling, which parse_upstream() reads as this.
    std::string text() const;
    bool operator==(const Upstream&) const = default;
};

/// Nothing for any text that is not "http://" or "https://", a host, perhaps a port, perhaps a path without
/// an ambiguity (is_ambiguous_path()), and nothing behind it.
std::optional<Upstream> parse_upstream(std::string_view text);

/// True for 1 to 64 characters of [A-Za-z0-9_-]: a segment of a path that is never encoded.
bool is_route_name(std::string_view name) noexcept;
/// True for a token (RFC 9110 section 5.6.2) that may be a method of requests through a route.
bool is_route_method(std::string_view method) noexcept;
/// True for a name of a header that a route may set: none of the connection, the framing or the target.
bool is_route_header(std::string_view name) noexcept;
/// True for visible ASCII with spaces and tabs inside: a value that cannot end its header.
bool is_header_value(std::string_view value) noexcept;

/// True if servers may take `path` for another one: it has a segment "." or "..", perhaps with ";" or "%"
/// behind, an empty segment, a "\", an encoded ".", "/", "\" or control character, also encoded twice or in
/// a form that is no UTF-8, or a "%" without two digits.
bool is_ambiguous_path(std::string_view path) noexcept;
/// A path without an ambiguity, or the beginning of paths with a "*" behind it.
bool is_path_pattern(std::string_view pattern) noexcept;
bool matches_path(std::string_view pattern, std::string_view path) noexcept;

}  // namespace atl::egress
