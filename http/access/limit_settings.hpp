// Limits on one client, as the operator sets them. 0 means no limit. The defaults and their reasons:
// docs/operations/limits-and-capacity.md.
#pragma once

#include <cstddef>

#include "core/base/limits.hpp"

namespace atl::http {

/// The limits of loopback addresses and Unix sockets, except on failed logins, which always count. Their
/// clients are the operator's own programs, or, behind a proxy that is not trusted, all clients together.
enum class LoopbackLimits : bool { none, as_others };

struct LimitSettings {
    std::size_t connections_per_address = base::k_max_connections_per_address;
    std::size_t requests_per_second_per_address = base::k_requests_per_second;
    std::size_t requests_per_second_per_key = 0;
    std::size_t failed_logins_per_minute = base::k_failed_logins_per_minute;  // of an address
    std::size_t streams_per_conversation = base::k_max_streams_per_conversation;
    std::size_t streams_per_key = base::k_max_streams_per_key;
    LoopbackLimits loopback = LoopbackLimits::none;
};

}  // namespace atl::http
