// Cross-origin requests of the pages that the operator allows (WHATWG Fetch, section 3.2): answers to
// preflights, and the fields that let a page read a response. Other origins get nothing of this; they are
// refused before (access.hpp). No cookies are used, so credentials are never allowed.
#pragma once

#include <string>
#include <vector>

#include "http/server/router.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// Whether the request is a preflight from an allowed origin: it has no key and goes to no route.
bool is_preflight(const Request& request, const std::vector<std::string>& allowed);

/// What a preflight gets: 204, and which methods and fields a request may have.
const Route& preflight_route();

/// Adds what a response to `request` says of origins; nothing if none is allowed.
void add_cors(const Request& request, const std::vector<std::string>& allowed, Response& response);

}  // namespace atl::http
