// Bounds on secrets.
#pragma once

#include <cstddef>

namespace atl::secrets {

inline constexpr std::size_t k_max_secret_name_bytes = 64;
inline constexpr std::size_t k_max_value_bytes = 8UL * 1024;  // half of what a head may have
inline constexpr std::size_t k_max_hosts = 32;
inline constexpr std::size_t k_max_secrets = 1000;        // of all users; 16 MiB with their hosts
inline constexpr std::size_t k_user_floor_secrets = 100;  // below it only the total counts

}  // namespace atl::secrets
