#include "http/access/ip_address.hpp"

#include <netinet/in.h>

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

constexpr IpAddress::Bytes k_v4_mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::size_t k_v4_offset = 12;
constexpr unsigned k_v4_offset_bits = 8 * k_v4_offset;
constexpr unsigned k_all_bits = 128;

IpAddress mapped(const in_addr& v4) noexcept {
    auto bytes = k_v4_mapped;
    std::memcpy(bytes.data() + k_v4_offset, &v4, sizeof v4);
    return IpAddress(bytes);
}

IpAddress plain(const in6_addr& v6) noexcept {
    IpAddress::Bytes bytes;
    std::memcpy(bytes.data(), &v6, bytes.size());
    return IpAddress(bytes);
}

// The first `bits` of an address are kept, the others are zero.
IpAddress cut(const IpAddress& address, unsigned bits) noexcept {
    auto bytes = address.bytes();
    for (unsigned at = 0; at < bytes.size(); ++at) {
        const unsigned kept = std::clamp(static_cast<int>(bits) - static_cast<int>(8 * at), 0, 8);
        bytes[at] = static_cast<std::uint8_t>(bytes[at] & (0xff00U >> kept));
    }
    return IpAddress(bytes);
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
    // inet_pton(3) reads up to a NUL; a NUL inside the text would hide the rest.
    if (text.empty() || text.size() >= INET6_ADDRSTRLEN || text.find('\0') != std::string_view::npos)
        return std::nullopt;
    std::array<char, INET6_ADDRSTRLEN> copy{};
    std::copy(text.begin(), text.end(), copy.begin());
    in_addr v4{};
    if (::inet_pton(AF_INET, copy.data(), &v4) == 1)
        return mapped(v4);
    in6_addr v6{};
    if (::inet_pton(AF_INET6, copy.data(), &v6) == 1)
        return plain(v6);
    return std::nullopt;
}

std::optional<IpAddress> IpAddress::of(const sockaddr_storage& address) noexcept {
    if (address.ss_family == AF_INET)
        return mapped(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
    if (address.ss_family == AF_INET6)
        return plain(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
    return std::nullopt;
}

bool IpAddress::is_v4() const noexcept {
    return std::equal(bytes_.begin(), bytes_.begin() + k_v4_offset, k_v4_mapped.begin());
}

bool IpAddress::is_loopback() const noexcept {
    if (is_v4())
        return bytes_[k_v4_offset] == IN_LOOPBACKNET;
    in6_addr v6{};
    std::memcpy(&v6, bytes_.data(), bytes_.size());
    return IN6_IS_ADDR_LOOPBACK(&v6);
}

std::uint64_t IpAddress::budget_number() const noexcept {
    const std::size_t begin = is_v4() ? k_v4_offset : 0;
    const std::size_t end = is_v4() ? bytes_.size() : sizeof(std::uint64_t);
    std::uint64_t number = 0;
    for (std::size_t at = begin; at < end; ++at)
        number = number << 8U | bytes_[at];
    return number;
}

std::string IpAddress::text() const {
    std::array<char, INET6_ADDRSTRLEN> out{};
    const bool v4 = is_v4();
    ::inet_ntop(v4 ? AF_INET : AF_INET6, bytes_.data() + (v4 ? k_v4_offset : 0), out.data(), out.size());
    return out.data();
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view text) {
    const auto slash = text.find('/');
    const auto address_text = text.substr(0, slash);
    const auto address = IpAddress::parse(address_text);
    if (!address)
        return std::nullopt;
    if (slash == std::string_view::npos)
        return IpPrefix(*address, k_all_bits);
    // As written: "::ffff:10.0.0.0/104" counts from the start of the IPv6 address.
    const bool written_v4 = address_text.find(':') == std::string_view::npos;
    const unsigned offset = written_v4 ? k_v4_offset_bits : 0;
    const auto length = parse_decimal(text.substr(slash + 1));
    if (!length || *length > k_all_bits - offset)
        return std::nullopt;
    const unsigned bits = offset + static_cast<unsigned>(*length);
    if (cut(*address, bits) != *address)
        return std::nullopt;
    return IpPrefix(*address, bits);
}

bool IpPrefix::contains(const IpAddress& address) const noexcept {
    // "::/0" is every IPv6 address, not every IPv4 one.
    return address.is_v4() == first_.is_v4() && cut(address, bits_) == first_;
}

}  // namespace atl::http
