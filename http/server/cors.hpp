// Cross-origin requests (WHATWG Fetch, section 3.2): answers to preflights, and the fields that let a page
// read a response. Pages that the operator allows read all of them. Pages of other origins are refused before
// (access.hpp) and read that refusal alone, which holds no data. No cookies are used, so credentials are
// never allowed.
#pragma once

#include <string>
#include <vector>

#include "http/server/router.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// True for a preflight from an allowed origin, which has no key and goes to no route.
bool is_preflight(const Request& request, const std::vector<std::string>& allowed);

/// True for the preflight of a page whose origin is refused. Precondition: it is.
bool is_refused_preflight(const Request& request);

/// Answers a preflight with 204, and with the methods and fields that a request may have.
const Route& preflight_route();

/// Answers a refused preflight with 204 and all that it asks for. Else no browser would send the request
/// itself, whose answer says why.
const Route& refused_preflight_route();

/// Adds what a response to `request` says of origins. That is nothing if none is allowed, but for a response
/// whose problem_code is origin_not_allowed.
void add_cors(const Request& request, const std::vector<std::string>& allowed, Response& response);

}  // namespace atl::http
