#include "http/api/api.hpp"

#include <iterator>
#include <memory>

#include "core/base/ids.hpp"
#include "http/api/docs_page.hpp"
#include "http/api/openapi.hpp"
#include "http/api/ownership.hpp"
#include "http/console/console.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

void move_into(std::vector<Route>& all, std::vector<Route> some) {
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
}

base::Task<base::Result<Response>> async_send_document(std::shared_ptr<const std::string> document) {
    auto response = json_response({});
    response.lasting_body = *document;
    co_return response;
}

}  // namespace

Handler bind_handler(Api& api, ApiHandler handler) {
    return [&api, handler](RequestContext& context) { return handler(api, context); };
}

base::Result<std::string> id_param(const RequestContext& context) {
    const std::string& id = context.param("id");
    if (!base::is_id(id))
        return Error(Errc::not_found);
    return id;
}

Router make_router(Api& api) {
    std::vector<Route> routes;
    move_into(routes, conversation_routes(api));
    move_into(routes, turn_routes(api));
    move_into(routes, socket_routes(api));
    move_into(routes, egress_decision_routes(api));
    move_into(routes, token_routes(api));
    move_into(routes, sandbox_routes(api));
    move_into(routes, sandbox_report_routes(api));
    move_into(routes, file_routes(api));
    move_into(routes, file_change_routes(api));
    move_into(routes, archive_routes(api));
    move_into(routes, watch_routes(api));
    move_into(routes, tool_routes(api));
    move_into(routes, exec_routes(api));
    move_into(routes, process_routes(api));
    move_into(routes, execution_routes(api));
    move_into(routes, secret_routes(api));
    move_into(routes, system_routes(api));
    move_into(routes, console_routes(api.system.preview_frames));
    for (Route& route : routes)
        guard_route(api, route);
    const auto document = std::make_shared<std::string>();
    Route description;
    description.method = Method::get;
    description.pattern = "/openapi.json";
    description.name = "getOpenApi";
    description.summary = "This description.";
    description.responses = {{200, "The OpenAPI 3.1 document.", "OpenApi"}};
    description.handler = [document](RequestContext&) { return async_send_document(document); };
    description.auth = Auth::open;
    guard_route(api, description);
    routes.push_back(std::move(description));
    const auto page = std::make_shared<std::string>();
    routes.push_back(docs_route(page));
    const auto made = openapi_document(routes, api.system.version);
    // People type it so; the description has it once.
    Route with_slash = docs_route(page);
    with_slash.pattern = "/docs/";
    with_slash.name = "getDocsWithSlash";
    routes.push_back(std::move(with_slash));
    *document = made.dump();
    document->shrink_to_fit();
    *page = docs_page(made);
    return Router(std::move(routes));
}

}  // namespace atl::http
