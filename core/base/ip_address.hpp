// IP addresses and prefixes as text: the types of Boost.Asio, and rules that Asio does not have. An IPv4
// address and the same one mapped into IPv6 (RFC 4291 section 2.5.5.2) are one address.
// Invariant: an address that these functions return is never a mapped one and has no zone. Pure functions.
// Every text is hostile.
// Not here: addresses of sockets (http/access/ip_address.hpp), which of them a sandbox may reach
// (core/egress).
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <optional>
#include <string_view>
#include <variant>

namespace atl::base {

/// Only parse_address(), unmapped() and http::address_of() make one.
using IpAddress = boost::asio::ip::address;
/// Only parse_prefix() makes one: no bit beyond the length is set.
using IpPrefix = std::variant<boost::asio::ip::network_v4, boost::asio::ip::network_v6>;

/// "192.0.2.1" or "2001:db8::1"; no brackets, port or zone. Nothing for any other text.
std::optional<IpAddress> parse_address(std::string_view text);

/// The IPv4 address that is mapped into `address`, else `address`. Precondition: it has no zone.
IpAddress unmapped(const IpAddress& address) noexcept;

/// "10.0.0.0/8", "fd00::/8", or an address alone (RFC 4632, RFC 4291 section 2.3). Nothing for other text,
/// also if bits beyond the length are set: the text is then ambiguous.
std::optional<IpPrefix> parse_prefix(std::string_view text);

/// "::/0" holds every IPv6 address and no IPv4 address.
bool contains(const IpPrefix& prefix, const IpAddress& address) noexcept;

}  // namespace atl::base
