#include "http/access/ip_address.hpp"

#include <netinet/in.h>

#include <cstring>

namespace atl::http {

namespace ip = boost::asio::ip;

std::optional<IpAddress> address_of(const sockaddr_storage& address) noexcept {
    if (address.ss_family == AF_INET)
        return ip::address_v4(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr));
    if (address.ss_family != AF_INET6)
        return std::nullopt;
    ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, bytes.size());
    return base::unmapped(ip::address_v6(bytes));
}

std::uint64_t budget_number(const IpAddress& address) noexcept {
    if (address.is_v4())
        return address.to_v4().to_uint();
    const auto bytes = address.to_v6().to_bytes();
    std::uint64_t number = 0;
    for (std::size_t at = 0; at < sizeof number; ++at)
        number = number << 8U | bytes[at];
    return number;
}

}  // namespace atl::http
