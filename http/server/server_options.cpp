#include "http/server/server_options.hpp"

namespace atl::http {
namespace {

base::Task<base::Result<Response>> async_tell_methods(RequestContext&) {
    Response response;
    response.status = 204;
    response.headers.emplace_back("Allow", k_known_methods);
    co_return response;
}

}  // namespace

bool is_server_options(const Request& request) noexcept {
    return request.method == Method::options && request.path == "*";
}

const Route& server_options_route() {
    static const Route route = [] {
        Route made{};
        made.method = Method::options;
        made.handler = async_tell_methods;
        made.auth = Auth::open;
        return made;
    }();
    return route;
}

}  // namespace atl::http
