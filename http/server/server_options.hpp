// `OPTIONS *`: what the server as a whole can do (RFC 9110 section 9.3.7). It tells nothing of any resource
// and needs no key. Not here: preflights of browsers (cors.hpp).
#pragma once

#include "http/server/router.hpp"

namespace atl::http {

bool is_server_options(const Request& request) noexcept;

/// 204, with the methods that the server knows.
const Route& server_options_route();

}  // namespace atl::http
