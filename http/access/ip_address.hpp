// The addresses of peers, as limits count them and as trust is given to them.
// Invariant: an address that these functions return is never a mapped one and has no zone. Pure functions.
// Not here: addresses and prefixes as text (core/base/ip_address.hpp), sockets (listener.hpp), clients behind
// a proxy (client_address.hpp).
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "core/base/ip_address.hpp"

namespace atl::http {

using base::contains;
using base::IpAddress;
using base::IpPrefix;
using base::parse_address;
using base::parse_prefix;

/// The address of an AF_INET or AF_INET6 socket address, nothing for another family.
std::optional<IpAddress> address_of(const sockaddr_storage& address) noexcept;

/// The key that limits count by: an IPv4 address, or the first 64 bits of an IPv6 address, since a client
/// with one address of that prefix has all 2^64 (RFC 6177). IPv4 addresses have numbers in ::/32, which is
/// never assigned.
std::uint64_t budget_number(const IpAddress& address) noexcept;

}  // namespace atl::http
