#include "http/proxy/loopback_doors.hpp"

#include <algorithm>
#include <array>

#include "http/wire/text.hpp"

namespace atl::http {

LoopbackDoors::Opening LoopbackDoors::open(std::uint16_t number) {
    switch (server_.open_loopback(number, services_)) {
        case Server::Opening::open:
            return Opening::open;
        case Server::Opening::taken:
            return Opening::taken;
        case Server::Opening::refused:
            break;
    }
    return Opening::refused;
}

std::optional<std::uint16_t> loopback_port(std::string_view authority) noexcept {
    constexpr std::array<std::string_view, 3> k_hosts{"localhost", "127.0.0.1", "[::1]"};
    constexpr std::size_t k_most_digits = 5;
    const auto colon = authority.rfind(':');
    if (colon == std::string_view::npos || authority.size() - colon > k_most_digits + 1)
        return std::nullopt;
    const auto host = authority.substr(0, colon);
    const auto port = parse_decimal(authority.substr(colon + 1));
    const bool is_here = std::any_of(k_hosts.begin(), k_hosts.end(),
                                     [&](std::string_view name) { return iequals(name, host); });
    if (!is_here || !port || *port == 0 || *port > 65'535)
        return std::nullopt;
    return static_cast<std::uint16_t>(*port);
}

}  // namespace atl::http
