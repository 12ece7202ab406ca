// The addresses of this host, as they are at each question: those of interfaces, and those that a route alone
// has.
#include "http/egress/own_addresses.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstring>

namespace own_addresses_test {

using namespace atl;

namespace {

constexpr int k_no_namespace = 100;

/// Gives the loopback interface this address, which replaces the one before; 0.0.0.0 only removes it.
bool give_address(const char* text) {
    const base::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::memcpy(request.ifr_name, "lo", sizeof "lo");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(http::parse_address(text)->to_v4().to_uint());
    std::memcpy(&request.ifr_addr, &address, sizeof address);
    return ::ioctl(fd.get(), SIOCSIFADDR, &request) == 0;
}

bool raise_loopback() {
    const base::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::memcpy(request.ifr_name, "lo", sizeof "lo");
    request.ifr_flags = IFF_UP;
    return ::ioctl(fd.get(), SIOCSIFFLAGS, &request) == 0;
}

/// Does what `ip route add local TEXT dev lo` does: no interface has the address.
bool route_here(const char* text) {
    const auto address = *http::parse_address(text);
    struct {
        nlmsghdr head;
        rtmsg route;
        rtattr out;
        unsigned interface;
        rtattr destination;
        std::array<unsigned char, 16> address;
    } message{};
    std::size_t bytes = 4;
    if (address.is_v6()) {
        const auto octets = address.to_v6().to_bytes();
        bytes = std::copy(octets.begin(), octets.end(), message.address.begin()) - message.address.begin();
    } else {
        const auto octets = address.to_v4().to_bytes();
        std::copy(octets.begin(), octets.end(), message.address.begin());
    }
    message.head = {static_cast<std::uint32_t>(offsetof(decltype(message), address) + bytes), RTM_NEWROUTE,
                    NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK, 1, 0};
    message.route.rtm_family = address.is_v6() ? AF_INET6 : AF_INET;
    message.route.rtm_dst_len = static_cast<unsigned char>(8 * bytes);
    message.route.rtm_table = RT_TABLE_LOCAL;
    message.route.rtm_protocol = RTPROT_STATIC;
    message.route.rtm_scope = RT_SCOPE_HOST;
    message.route.rtm_type = RTN_LOCAL;
    message.out = {static_cast<unsigned short>(RTA_LENGTH(sizeof message.interface)), RTA_OIF};
    message.interface = ::if_nametoindex("lo");
    message.destination = {static_cast<unsigned short>(RTA_LENGTH(bytes)), RTA_DST};
    const base::UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    struct {
        nlmsghdr head;
        nlmsgerr error;
    } answer{};
    return ::send(fd.get(), &message, message.head.nlmsg_len, 0) > 0 &&
           ::recv(fd.get(), &answer, sizeof answer, 0) == sizeof answer && answer.error.error == 0;
}

bool has(http::OwnAddresses& own, const char* text) {
    return own.has(*http::parse_address(text)) == true;
}

/// In a net namespace of its own. The number of the first step that is not as it should be; 0: there is none.
int change_addresses() {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return k_no_namespace;
    http::OwnAddresses own;
    if (!raise_loopback() || own.has(*http::parse_address("192.0.2.1")) != false)
        return 1;
    if (!give_address("192.0.2.1") || !has(own, "192.0.2.1"))
        return 2;
    if (!give_address("203.0.113.2") || !has(own, "203.0.113.2") || has(own, "192.0.2.1"))
        return 3;
    if (!give_address("0.0.0.0") || has(own, "203.0.113.2"))
        return 4;
    for (const char* text : {"198.51.100.7", "2001:db8::7"}) {
        if (own.has(*http::parse_address(text)) != false || !route_here(text) || !has(own, text))
            return 5;
    }
    if (has(own, "198.51.100.8") || has(own, "2001:db8::8"))
        return 6;
    return 0;
}

}  // namespace

TEST_CASE("An address that this host gets is one of its own at once, and none once it is gone") {
    const pid_t child = ::fork();
    if (child == 0)
        ::_exit(change_addresses());
    REQUIRE(child > 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == k_no_namespace)
        SKIP("no user namespaces on this host");
    CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace own_addresses_test
