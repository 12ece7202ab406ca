// How many sockets a net namespace has, from files of proc(5): `sockets: used` of /proc/PID/net/sockstat has
// those of every family, one that is in flight or was closed with unsent data among them;
// /proc/PID/net/protocols tells them by protocol. Plain reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace atl::isolation {

/// From an open sockstat file, read from its beginning.
std::optional<std::uint32_t> sockets_used(int sockstat);

/// From an open protocols file, whose rows begin with a name in capitals.
std::optional<std::uint32_t> sockets_of_protocol(int protocols, std::string_view name);

/// Whether this host has the first file.
bool can_count_sockets();

}  // namespace atl::isolation
