#include "http/egress/own_addresses.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace atl::http {
namespace {

/// The route to one address.
struct RouteQuestion {
    nlmsghdr head;
    rtmsg route;
    rtattr destination;
    std::array<unsigned char, 16> address;
};
static_assert(offsetof(RouteQuestion, address) == NLMSG_LENGTH(sizeof(rtmsg)) + RTA_LENGTH(0));

RouteQuestion question_of(const IpAddress& address, std::uint32_t number) {
    RouteQuestion question{};
    std::size_t bytes = 4;
    if (address.is_v6()) {
        const auto octets = address.to_v6().to_bytes();
        bytes = octets.size();
        std::copy(octets.begin(), octets.end(), question.address.begin());
    } else {
        const auto octets = address.to_v4().to_bytes();
        std::copy(octets.begin(), octets.end(), question.address.begin());
    }
    question.head.nlmsg_len = static_cast<std::uint32_t>(offsetof(RouteQuestion, address) + bytes);
    question.head.nlmsg_type = RTM_GETROUTE;
    question.head.nlmsg_flags = NLM_F_REQUEST;
    question.head.nlmsg_seq = number;
    question.route.rtm_family = address.is_v6() ? AF_INET6 : AF_INET;
    question.route.rtm_dst_len = static_cast<unsigned char>(8 * bytes);
    question.destination.rta_type = RTA_DST;
    question.destination.rta_len = static_cast<unsigned short>(RTA_LENGTH(bytes));
    return question;
}

}  // namespace

// The kernel has answered when send() returns. An answer that an earlier call did not take has another
// number.
std::optional<bool> OwnAddresses::has(const IpAddress& address) {
    if (!routes_)
        routes_.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    const RouteQuestion question = question_of(address, ++asked_);
    if (!routes_ || ::send(routes_.get(), &question, question.head.nlmsg_len, 0) < 0)
        return std::nullopt;
    struct {
        nlmsghdr head;
        rtmsg route;
    } answer{};
    do {
        if (::recv(routes_.get(), &answer, sizeof answer, MSG_DONTWAIT) < static_cast<ssize_t>(sizeof answer))
            return std::nullopt;
    } while (answer.head.nlmsg_seq != asked_);
    const unsigned type = answer.route.rtm_type;
    // There may be no route at all.
    return answer.head.nlmsg_type == RTM_NEWROUTE && (type == RTN_LOCAL || type == RTN_ANYCAST);
}

}  // namespace atl::http
