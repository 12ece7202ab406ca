#include "http/wire/heartbeat.hpp"

#include <cstdint>

namespace atl::http {

base::Millis first_heartbeat(base::Millis interval, base::SteadyTime now) noexcept {
    // Fibonacci hashing (Knuth, TAOCP 3, 6.4): near times are far apart in the upper bits of the product.
    constexpr std::uint64_t k_multiplier = 0x9E3779B97F4A7C15;
    constexpr unsigned k_share_bits = 10;
    const auto ticks = static_cast<std::uint64_t>(now.time_since_epoch().count());
    const auto share = static_cast<base::Millis::rep>((ticks * k_multiplier) >> (64 - k_share_bits));
    return interval - interval / 2 * share / (1 << k_share_bits);
}

}  // namespace atl::http
