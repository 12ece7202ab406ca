// `OPTIONS *`: what the server as a whole can do (RFC 9110 section 9.3.7). It tells nothing of any resource
// and needs no key. Not here: preflights of browsers (cors.hpp).
#pragma once

#include <string_view>

#include "http/server/router.hpp"

namespace atl::http {

/// The methods that the server knows, as the field Allow names them.
inline constexpr std::string_view k_known_methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

bool is_server_options(const Request& request) noexcept;

/// 204, with k_known_methods.
const Route& server_options_route();

}  // namespace atl::http
