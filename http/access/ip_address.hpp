// IP addresses and prefixes for limits and trust: the types of Boost.Asio, and rules that Asio does not have.
// An IPv4 address and the same one mapped into IPv6 (RFC 4291 section 2.5.5.2) are one address.
// Invariant: an address that these functions return is never a mapped one and has no zone. Pure functions.
// Every text is hostile.
// Not here: sockets (listener.hpp), clients behind a proxy (client_address.hpp).
#pragma once

#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

namespace atl::http {

/// Only parse_address() and address_of() make one.
using IpAddress = boost::asio::ip::address;
/// Only parse_prefix() makes one: no bit beyond the length is set.
using IpPrefix = std::variant<boost::asio::ip::network_v4, boost::asio::ip::network_v6>;

/// "192.0.2.1" or "2001:db8::1"; no brackets, port or zone. Nothing for any other text.
std::optional<IpAddress> parse_address(std::string_view text);

/// The address of an AF_INET or AF_INET6 socket address, nothing for another family.
std::optional<IpAddress> address_of(const sockaddr_storage& address) noexcept;

/// The key that limits count by: an IPv4 address, or the first 64 bits of an IPv6 address, since a client
/// with one address of that prefix has all 2^64 (RFC 6177). IPv4 addresses have numbers in ::/32, which is
/// never assigned.
std::uint64_t budget_number(const IpAddress& address) noexcept;

/// "10.0.0.0/8", "fd00::/8", or an address alone (RFC 4632, RFC 4291 section 2.3). Nothing for other text,
/// also if bits beyond the length are set: the text is then ambiguous.
std::optional<IpPrefix> parse_prefix(std::string_view text);

/// "::/0" holds every IPv6 address and no IPv4 address.
bool contains(const IpPrefix& prefix, const IpAddress& address) noexcept;

}  // namespace atl::http
