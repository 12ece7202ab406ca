#include "core/egress/address_filter.hpp"

#include <array>
#include <cstdint>

namespace atl::egress {
namespace {

struct SpecialV4 {
    std::uint32_t first;
    unsigned bits;
    std::string_view kind;
};

constexpr std::uint32_t v4(unsigned a, unsigned b = 0, unsigned c = 0, unsigned d = 0) {
    return a << 24U | b << 16U | c << 8U | d;
}

constexpr std::array k_special_v4{
    SpecialV4{v4(0), 8, "unspecified"},
    SpecialV4{v4(10), 8, "private"},
    SpecialV4{v4(100, 64), 10, "carrier-grade NAT"},
    SpecialV4{v4(127), 8, "loopback"},
    SpecialV4{v4(168, 63, 129, 16), 32, "cloud metadata"},  // of Azure, which chose a public one
    SpecialV4{v4(169, 254), 16, "link-local"},
    SpecialV4{v4(172, 16), 12, "private"},
    SpecialV4{v4(192, 0, 0), 24, "reserved"},
    SpecialV4{v4(192, 88, 99), 24, "reserved"},
    SpecialV4{v4(192, 168), 16, "private"},
    SpecialV4{v4(198, 18), 15, "private"},
    SpecialV4{v4(224), 4, "multicast"},
    SpecialV4{v4(240), 4, "reserved"},
};

struct SpecialV6 {
    std::array<std::uint8_t, 12> first;  // the bits behind them are 0
    unsigned bits;
    std::string_view kind;
};

constexpr std::string_view k_v4_in_v6 = "IPv4 in IPv6";
// The first that fits counts.
constexpr std::array k_special_v6{
    SpecialV6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, k_v4_in_v6},        // mapped
    SpecialV6{{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, k_v4_in_v6},              // translated, RFC 2765
    SpecialV6{{0}, 96, k_v4_in_v6},                                               // compatible
    SpecialV6{{0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}, 96, k_v4_in_v6},  // NAT64, RFC 6052
    SpecialV6{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, k_v4_in_v6},              // NAT64, RFC 8215
    SpecialV6{{0x20, 0x02}, 16, k_v4_in_v6},                                      // 6to4
    SpecialV6{{0x20, 0x01, 0x00, 0x00}, 32, k_v4_in_v6},                          // Teredo
    SpecialV6{{0x20, 0x01, 0x00}, 23, "reserved"},                                // RFC 2928
    SpecialV6{{0xfc}, 7, "private"},
    SpecialV6{{0xfe, 0x80}, 10, "link-local"},
    SpecialV6{{0xfe, 0xc0}, 10, "private"},
    SpecialV6{{0xff}, 8, "multicast"},
};

bool is_in(const SpecialV6& range, const boost::asio::ip::address_v6::bytes_type& bytes) noexcept {
    for (unsigned bit = 0; bit < range.bits; ++bit) {
        const unsigned shift = 7 - bit % 8;
        if (((range.first[bit / 8] ^ bytes[bit / 8]) >> shift & 1U) != 0)
            return false;
    }
    return true;
}

// An interface identifier of ISATAP (RFC 5214 section 6.1), below any prefix.
bool is_isatap(const boost::asio::ip::address_v6::bytes_type& bytes) noexcept {
    return (bytes[8] & 0xfdU) == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe;
}

}  // namespace

std::optional<std::string_view> special_kind(const base::IpAddress& address) noexcept {
    if (address.is_v4()) {
        const std::uint32_t number = address.to_v4().to_uint();
        for (const SpecialV4& range : k_special_v4) {
            if ((number ^ range.first) >> (32 - range.bits) == 0)
                return range.kind;
        }
        return std::nullopt;
    }
    const auto v6 = address.to_v6();
    if (v6.is_unspecified())
        return "unspecified";
    if (v6.is_loopback())
        return "loopback";
    const auto bytes = v6.to_bytes();
    for (const SpecialV6& range : k_special_v6) {
        if (is_in(range, bytes))
            return range.kind;
    }
    if (is_isatap(bytes))
        return k_v4_in_v6;
    // All that IANA has given to the internet is in 2000::/3.
    return bytes[0] >> 5U == 1 ? std::nullopt : std::optional<std::string_view>("reserved");
}

}  // namespace atl::egress
