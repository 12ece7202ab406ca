#include "core/base/ip_address.hpp"

#include <netinet/in.h>

#include <charconv>

namespace atl::base {
namespace {

namespace ip = boost::asio::ip;

constexpr unsigned k_v4_bits = 32;
constexpr unsigned k_v6_bits = 128;

// Does not unmap: the length of a prefix counts from the first bit of the text as written.
std::optional<IpAddress> parse_as_written(std::string_view text) {
    // Asio reads up to a NUL, which would hide the rest of the text, and accepts a zone.
    if (text.size() >= INET6_ADDRSTRLEN ||
        text.find_first_of(std::string_view("\0%", 2)) != std::string_view::npos)
        return std::nullopt;
    boost::system::error_code error;
    const auto address = ip::make_address(text, error);
    return error ? std::nullopt : std::optional(address);
}

std::optional<unsigned> parse_length(std::string_view text) {
    unsigned bits = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, bits);
    return error == std::errc() && stop == end ? std::optional(bits) : std::nullopt;
}

template <class Network, class Address>
std::optional<IpPrefix> make_prefix(const Address& first, unsigned bits) {
    const Network network(first, static_cast<unsigned short>(bits));
    return network == network.canonical() ? std::optional<IpPrefix>(network) : std::nullopt;
}

}  // namespace

IpAddress unmapped(const IpAddress& address) noexcept {
    if (address.is_v6() && address.to_v6().is_v4_mapped())
        return ip::make_address_v4(ip::v4_mapped, address.to_v6());
    return address;
}

std::optional<IpAddress> parse_address(std::string_view text) {
    const auto address = parse_as_written(text);
    return address ? std::optional(unmapped(*address)) : std::nullopt;
}

// make_network_v4() and make_network_v6() would read a length of 2^32 + 8 as 8.
std::optional<IpPrefix> parse_prefix(std::string_view text) {
    const auto slash = text.find('/');
    const auto written = parse_as_written(text.substr(0, slash));
    if (!written)
        return std::nullopt;
    const unsigned written_bits = written->is_v4() ? k_v4_bits : k_v6_bits;
    const auto length =
        slash == std::string_view::npos ? std::optional(written_bits) : parse_length(text.substr(slash + 1));
    if (!length || *length > written_bits)
        return std::nullopt;
    const IpAddress first = unmapped(*written);
    const unsigned cut = written_bits - (first.is_v4() ? k_v4_bits : k_v6_bits);
    if (*length < cut)  // "::ffff:10.0.0.0/90": bits of the ffff are beyond the length
        return std::nullopt;
    const unsigned bits = *length - cut;
    return first.is_v4() ? make_prefix<ip::network_v4>(first.to_v4(), bits)
                         : make_prefix<ip::network_v6>(first.to_v6(), bits);
}

bool contains(const IpPrefix& prefix, const IpAddress& address) noexcept {
    if (const auto* const v4 = std::get_if<ip::network_v4>(&prefix))
        return address.is_v4() &&
               ip::network_v4(address.to_v4(), v4->prefix_length()).network() == v4->network();
    const auto& v6 = std::get<ip::network_v6>(prefix);
    return address.is_v6() && ip::network_v6(address.to_v6(), v6.prefix_length()).network() == v6.network();
}

}  // namespace atl::base
