#include "http/server/cors.hpp"

#include <utility>

#include "http/access/access.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

constexpr std::string_view k_wanted_method = "Access-Control-Request-Method";
const std::string_view k_refused_code = base::code_name(base::Errc::origin_not_allowed);

base::Task<base::Result<Response>> async_preflight(RequestContext&) {
    Response response;
    response.status = 204;
    response.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
    response.headers.emplace_back(
        "Access-Control-Allow-Headers",
        "Authorization, Content-Type, X-API-Key, Idempotency-Key, Last-Event-ID, X-Request-Id, Range, "
        "If-Range, If-Match, If-None-Match");
    response.headers.emplace_back("Access-Control-Max-Age", "600");
    co_return response;
}

// All that is asked for may be asked: the request itself is refused, in an answer that its page can read.
base::Task<base::Result<Response>> async_refused_preflight(RequestContext& context) {
    Response response;
    response.status = 204;
    response.problem_code = k_refused_code;
    const Request& request = context.request;
    response.headers.emplace_back("Access-Control-Allow-Methods",
                                  std::string(request.header(k_wanted_method)));
    if (const auto wanted = request.header("Access-Control-Request-Headers"); !wanted.empty())
        response.headers.emplace_back("Access-Control-Allow-Headers", std::string(wanted));
    co_return response;
}

Route open_options_route(Handler handler) {
    Route made{};
    made.method = Method::options;
    made.handler = std::move(handler);
    made.auth = Auth::open;
    return made;
}

bool asks_before(const Request& request) {
    return request.method == Method::options && request.has_header(k_wanted_method);
}

// True for an origin as browsers send it (WHATWG HTML, section 7.1.1), of any scheme; "null" is every
// sandboxed page.
bool is_origin_of_page(std::string_view origin) {
    return origin == "null" || origin.find("://") != std::string_view::npos;
}

}  // namespace

bool is_preflight(const Request& request, const std::vector<std::string>& allowed) {
    return asks_before(request) && is_allowed_origin(request.header("Origin"), allowed);
}

bool is_refused_preflight(const Request& request) {
    return asks_before(request) && is_origin_of_page(request.header("Origin"));
}

const Route& preflight_route() {
    static const Route route = open_options_route(async_preflight);
    return route;
}

const Route& refused_preflight_route() {
    static const Route route = open_options_route(async_refused_preflight);
    return route;
}

void add_cors(const Request& request, const std::vector<std::string>& allowed, Response& response) {
    const bool is_refused = response.problem_code == k_refused_code;
    if (allowed.empty() && !is_refused)
        return;
    // Also where there is no Origin: a cache must not give this response to a page.
    response.headers.emplace_back("Vary", "Origin");
    const auto origin = request.header("Origin");
    if (is_refused ? !is_origin_of_page(origin) : !is_allowed_origin(origin, allowed))
        return;
    response.headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
    response.headers.emplace_back("Access-Control-Expose-Headers",
                                  "X-Request-Id, Retry-After, ETag, Content-Range, Accept-Ranges, "
                                  "Content-Disposition, Atoll-Left-Out");
}

}  // namespace atl::http
