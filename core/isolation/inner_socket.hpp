// Sockets of the server in the net namespace of a sandbox, on the sandbox's own loopback: connected ones are
// the way to a server inside, which needs no network of the sandbox and no byte of a program inside; a
// listening one is its way out. The thread joins
// the namespace only while it makes the socket (setns(2), 6 us); a socket stays where it was made.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::isolation {

/// Makes a TCP socket of AF_INET or AF_INET6 in the net namespace of a sandbox, non-blocking.
using MakeInnerSocket = std::function<base::Result<base::UniqueFd>(int family)>;

/// True if this thread may join its own net namespace, and so come back to it. A server with subordinate ids
/// may enter those of its sandboxes, but its own belongs to the host's root.
bool can_join_net_namespaces() noexcept;

/// Such a socket, in the net namespace of the process `pidfd`. Precondition: the server has one thread.
/// Errors: host_unsupported, where it may not (can_join_net_namespaces(); socket_maker.hpp is for that);
/// capacity; sandbox_gone.
base::Result<base::UniqueFd> socket_inside(const base::UniqueFd& pidfd, int family);

/// A socket of `make` that listens on 127.0.0.1:`port`, also while the loopback of the sandbox is still down.
/// Errors: capacity, also where a program inside has the port; those of `make`.
base::Result<base::UniqueFd> listen_inside(const MakeInnerSocket& make, std::uint16_t port);

/// A socket of `make` that connects to `port` of 127.0.0.1, or of [::1] where nothing listens there. It may
/// still be connecting. Errors: no_listener; those of `make`.
base::Result<base::UniqueFd> connect_inside(const MakeInnerSocket& make, std::uint16_t port);

}  // namespace atl::isolation
