// Which addresses are those of the internet, and which are a network, a host or a form behind which another
// address hides. A name that a stranger controls may resolve to any of them, so the filter is asked about
// each address that was resolved, and the address that it passed is the one that is dialled. Pure functions.
// Not here: the addresses that this host has itself, and those that an operator opens (ceilings.hpp).
#pragma once

#include <optional>
#include <string_view>

#include "core/base/ip_address.hpp"

namespace atl::egress {

/// Nothing for an address of the public internet, else the kind in a word, as "loopback", "private" or
/// "link-local" (RFC 6890 and the registries of IANA for special purposes). An IPv6 address that stands for
/// an IPv4 address (mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP) is "IPv4 in IPv6", whatever
/// address it stands for. Addresses for documentation lead nowhere and count as public.
std::optional<std::string_view> special_kind(const base::IpAddress& address) noexcept;

}  // namespace atl::egress
