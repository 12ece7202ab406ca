// Bounds on lists of hosts.
#pragma once

#include <cstddef>

#include "core/plain/egress_limits.hpp"

namespace atl::egress {

inline constexpr std::size_t k_max_name_bytes = 253;  // RFC 1035 section 3.1, as text
inline constexpr std::size_t k_max_label_bytes = 63;
// "*." + a name + ":65535" + "/tcp".
inline constexpr std::size_t k_max_rule_bytes = 2 + k_max_name_bytes + 6 + 4;
inline constexpr std::size_t k_max_rules = base::k_max_egress_rules;  // of a list of a request
inline constexpr std::size_t k_max_list_bytes = 16 * 1024;            // of its rules in normal form
inline constexpr std::size_t k_max_group_name_bytes = 64;
// Bounds on routes.
inline constexpr std::size_t k_max_route_name_bytes = 64;
inline constexpr std::size_t k_max_path_bytes = 256;  // of an upstream, or of a rule
inline constexpr std::size_t k_max_method_bytes = 32;
inline constexpr std::size_t k_max_header_name_bytes = 128;
// Bounds on the operator's flags.
inline constexpr std::size_t k_max_groups = 64;
inline constexpr std::size_t k_max_patterns = 1024;  // of --egress-allow, and of all groups together
inline constexpr std::size_t k_max_private_ranges = 256;

static_assert(k_max_rule_bytes <= base::k_max_egress_rule_bytes);
static_assert(base::k_max_egress_rule_bytes < k_max_list_bytes);

}  // namespace atl::egress
