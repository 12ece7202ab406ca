// How many sockets a net namespace has, from files of proc(5): `sockets: used` of /proc/PID/net/sockstat
// counts sockets of every family, also a socket that is in flight or was closed with unsent data;
// /proc/PID/net/protocols has a count for each protocol. Plain reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace atl::isolation {

/// From an open sockstat file, read from its beginning.
std::optional<std::uint32_t> sockets_used(int sockstat);

/// The count of protocol `name`, in capitals, from an open /proc/PID/net/protocols.
std::optional<std::uint32_t> sockets_of_protocol(int protocols, std::string_view name);

/// True if this host has the sockstat file.
bool can_count_sockets();

}  // namespace atl::isolation
