// Hosts and ports as programs, requests and operators write them. Every text is hostile: there is one
// spelling of a name and one of an address, so that what a list is compared with is what is resolved or
// dialled. Invariant: a Host is a name of labels of [a-z0-9._-], or an address literal; never both. Pure
// functions. Not here: which of them a list names (pattern.hpp), which addresses may be dialled
// (address_filter.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/ip_address.hpp"

namespace atl::egress {

struct Host {
    // A name in lower case without a dot at its end, or an address in its one spelling, without brackets.
    std::string name;
    std::optional<base::IpAddress> address;  // of a literal, which no resolver is asked for

    /// With brackets around an IPv6 address.
    std::string in_url() const;
    bool operator==(const Host&) const = default;
};

/// "API.example.com", "example.com.", "192.0.2.1", "[2001:db8::1]". Nothing for any other text: another
/// character (also NUL, '%' and non-ASCII letters), a name beyond 253 bytes, a label that is empty or beyond
/// 63 bytes, an IPv6 address without brackets, with a zone or with an IPv4 address mapped into it. A name
/// whose last label is a number, also hexadecimal, is an address literal (WHATWG URL, "ends in a number"),
/// and only four decimal numbers are a good one: "127.1" and "0x7f.1" are nothing.
std::optional<Host> parse_host(std::string_view text);

/// 1 to 65535, of digits alone and without zeros before them. Nothing for any other text.
std::optional<std::uint16_t> parse_port(std::string_view text) noexcept;

struct Endpoint {
    Host host;
    std::uint16_t port = 0;

    /// "host:443", "[2001:db8::1]:443".
    std::string text() const;
    bool operator==(const Endpoint&) const = default;
};

/// A host and its port, as in CONNECT (RFC 9110 section 9.3.6) and in a URL, without user and password. A
/// port that is not there is `default_port`; 0: it must be there. Nothing for any other text.
std::optional<Endpoint> parse_endpoint(std::string_view authority, std::uint16_t default_port = 0);

}  // namespace atl::egress
