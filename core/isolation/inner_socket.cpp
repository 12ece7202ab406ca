#include "core/isolation/inner_socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "core/base/log_output.hpp"
#include "core/plain/egress_limits.hpp"

namespace atl::isolation {
namespace {

using base::Errc;
using base::Error;

// 0, or an errno. A loopback answers within the call or right behind it, so one look is enough for nearly
// all; one that is not known yet counts as made, and fails later.
int connect_to(const base::UniqueFd& fd, const sockaddr* address, socklen_t size) {
    if (::connect(fd.get(), address, size) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    pollfd ready{fd.get(), POLLOUT, 0};
    int error = 0;
    socklen_t error_size = sizeof error;
    if (::poll(&ready, 1, 0) == 1)
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &error_size);
    return error;
}

Error no_listener(std::uint16_t port) {
    return {Errc::no_listener, "Nothing listens on port " + std::to_string(port) + " of the sandbox."};
}

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_port = htons(port);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return here;
}

}  // namespace

bool can_join_net_namespaces() noexcept {
    const base::UniqueFd own(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    return own && ::setns(own.get(), CLONE_NEWNET) == 0;
}

// The way back cannot fail for a thread that could join its own namespace; if it did, nothing that the server
// did from then on would be where it belongs.
base::Result<base::UniqueFd> socket_inside(const base::UniqueFd& pidfd, int family) {
    const base::UniqueFd own(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!own)
        return Error(Errc::capacity, base::errno_text("opening the server's own net namespace", errno));
    static const bool s_may_return = can_join_net_namespaces();
    if (!s_may_return)
        return Error(Errc::host_unsupported, "The server may not join net namespaces, or not come back.");
    if (::setns(pidfd.get(), CLONE_NEWNET) != 0) {
        if (errno == ESRCH)
            return Error(Errc::sandbox_gone);
        return Error(Errc::host_unsupported, "The server may not join the net namespace of a sandbox.");
    }
    base::UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int error = errno;
    if (::setns(own.get(), CLONE_NEWNET) != 0) {
        base::LogOutput(STDERR_FILENO).write("atolld: cannot return from the net namespace of a sandbox\n");
        std::abort();
    }
    if (!fd)
        return Error(Errc::capacity,
                     "No socket could be made inside the sandbox: errno " + std::to_string(error));
    return fd;
}

base::Result<base::UniqueFd> listen_inside(const MakeInnerSocket& make, std::uint16_t port) {
    auto fd = make(AF_INET);
    if (fd.has_error())
        return fd;
    // IP_FREEBIND: the loopback, which gives the sandbox this address, may still be down (ip(7)).
    const int on = 1;
    const sockaddr_in here = loopback(port);
    if (::setsockopt(fd->get(), IPPROTO_IP, IP_FREEBIND, &on, sizeof on) != 0 ||
        ::bind(fd->get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0 ||
        ::listen(fd->get(), base::k_egress_backlog) != 0)
        return Error(Errc::capacity, base::errno_text("listening inside the sandbox", errno));
    return fd;
}

base::Result<base::UniqueFd> connect_inside(const MakeInnerSocket& make, std::uint16_t port) {
    auto v4 = make(AF_INET);
    if (v4.has_error())
        return v4;
    const sockaddr_in here = loopback(port);
    if (connect_to(*v4, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0)
        return v4;
    // `localhost` is [::1] alone to many dev servers.
    auto v6 = make(AF_INET6);
    if (v6.has_error())
        return no_listener(port);
    sockaddr_in6 here6{};
    here6.sin6_family = AF_INET6;
    here6.sin6_port = htons(port);
    here6.sin6_addr = in6addr_loopback;
    if (connect_to(*v6, reinterpret_cast<const sockaddr*>(&here6), sizeof here6) == 0)
        return v6;
    return no_listener(port);
}

}  // namespace atl::isolation
