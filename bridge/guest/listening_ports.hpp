// Which TCP ports of the own net namespace are listened on where its loopback reaches them, as the kernel
// tells (proc(5), /proc/net/tcp). A look at the tables walks the hash table of all connections of the host:
// 0.5 ms each on a small one. So the counts of /proc/net/sockstat are looked at first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl::guest {

/// The text of /proc/net/tcp or /proc/net/tcp6, or its beginning: adds the ports of listening sockets that
/// 127.0.0.1 or [::1] reaches. Listening sockets come first in it; nothing behind them is read, nor behind a
/// line of another form.
void add_listening_ports(std::string_view table, std::vector<std::uint16_t>& ports);

/// Sorted, each once, without the server's own, the smallest base::k_max_told_ports.
std::vector<std::uint16_t> told_ports(std::vector<std::uint16_t> ports);

/// The ports that are listened on now, from a bounded part of both tables.
std::vector<std::uint16_t> listening_ports();

/// How many TCP sockets there are, of both families: "in use" is what may be in the tables. None if that
/// cannot be read.
struct TcpCounts {
    std::uint64_t ipv4 = 0;
    std::uint64_t ipv6 = 0;
    bool operator==(const TcpCounts&) const = default;
};
std::optional<TcpCounts> tcp_counts();

}  // namespace atl::guest
