#include "http/egress/own_addresses.hpp"

#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace atl::http {
namespace {

// From here on the kernel tells of each address that comes or goes.
base::UniqueFd watch_addresses() {
    base::UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
    sockaddr_nl changes{};
    changes.nl_family = AF_NETLINK;
    changes.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
    if (fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&changes), sizeof changes) != 0)
        fd.reset();
    return fd;
}

// The messages are not read: any of them, and the loss of one (ENOBUFS), is a change.
bool has_change(int fd) {
    for (bool is_any = false;; is_any = true) {
        char start = 0;
        if (::recv(fd, &start, sizeof start, MSG_DONTWAIT) < 0)
            return is_any || errno != EAGAIN;
    }
}

std::optional<EgressAddresses> read_addresses() {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0)
        return std::nullopt;
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
    EgressAddresses own;
    for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
        const int family = at->ifa_addr == nullptr ? AF_UNSPEC : at->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6)
            continue;
        sockaddr_storage address{};
        std::memcpy(&address, at->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        if (const auto known = address_of(address))
            own.push_back(*known);
    }
    return own;
}

}  // namespace

// Watched before they are read: no change falls between.
const std::optional<EgressAddresses>& OwnAddresses::now() {
    const bool is_current = known_ && changes_ && !has_change(changes_.get());
    if (is_current)
        return known_;
    if (!changes_)
        changes_ = watch_addresses();
    known_ = read_addresses();
    return known_;
}

}  // namespace atl::http
