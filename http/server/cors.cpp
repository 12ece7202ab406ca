#include "http/server/cors.hpp"

#include "http/access/access.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

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

}  // namespace

bool is_preflight(const Request& request, const std::vector<std::string>& allowed) {
    return request.method == Method::options && request.has_header("Access-Control-Request-Method") &&
           is_allowed_origin(request.header("Origin"), allowed);
}

const Route& preflight_route() {
    static const Route route = [] {
        Route made{};
        made.method = Method::options;
        made.handler = async_preflight;
        made.auth = Auth::open;
        return made;
    }();
    return route;
}

void add_cors(const Request& request, const std::vector<std::string>& allowed, Response& response) {
    if (allowed.empty())
        return;
    // Also where there is no Origin: a cache must not give this response to a page.
    response.headers.emplace_back("Vary", "Origin");
    const auto origin = request.header("Origin");
    if (!is_allowed_origin(origin, allowed))
        return;
    response.headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
    response.headers.emplace_back("Access-Control-Expose-Headers",
                                  "X-Request-Id, Retry-After, ETag, Content-Range, Accept-Ranges, "
                                  "Content-Disposition");
}

}  // namespace atl::http
