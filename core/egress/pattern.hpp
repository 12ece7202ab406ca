// A pattern of hosts and ports: `api.example.com`, `*.example.org:443`, `host:22/tcp`, `192.0.2.1:8080`, `*`.
// Requests list what they want with patterns, and operators what they allow. Pure values.
// Not here: groups of patterns (allow_list.hpp, ceilings.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/egress/host.hpp"

namespace atl::egress {

/// The ports of a pattern that names none.
inline constexpr std::uint16_t k_http_port = 80;
inline constexpr std::uint16_t k_https_port = 443;

/// The bytes that may pass in a tunnel: TLS towards the name alone (on port 80 a request of HTTP), or any.
enum class Bytes : std::uint8_t { tls, any };

struct Pattern {
    enum class Hosts : std::uint8_t {
        one,    // a name or an address literal
        below,  // every name below a name, at any depth; not that name itself
        all,    // every name; no address literal
    };
    Hosts hosts = Hosts::one;
    Host host;               // of `all`: empty
    std::uint16_t port = 0;  // 0: k_http_port and k_https_port
    Bytes bytes = Bytes::tls;

    /// Reads HOST[:PORT][/tcp]. Errors: invalid_field, with a sentence that begins with "must".
    static base::Result<Pattern> parse(std::string_view text);

    /// The one spelling, which parse() reads as this pattern.
    std::string text() const;
    bool is_literal() const noexcept { return host.address.has_value(); }
    std::vector<std::uint16_t> ports() const;
    bool has_port(std::uint16_t wanted) const noexcept;
    bool matches(const Endpoint& endpoint) const noexcept;
    /// True if this matches each host that `other` matches.
    bool covers_hosts(const Pattern& other) const noexcept;
    bool operator==(const Pattern&) const = default;
};

}  // namespace atl::egress
