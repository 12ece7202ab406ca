// The route that makes stream tokens.
#include "core/base/json_writer.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/api/api.hpp"
#include "http/api/forms.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Result;
using base::Task;

Task<Result<Response>> async_create_token(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body_or_empty();
    if (body.has_error())
        co_return body.error();
    const auto form = read_token_form(*body);
    if (form.has_error())
        co_return form.error();
    auto start = [&](conversation::Reply<conversation::View> reply) {
        api.conversations.get(*id, std::move(reply));
    };
    const auto view = co_await context.async_reply<conversation::View>(start);
    if (view.has_error())
        co_return view.error();
    const auto issued = api.tokens->issue(*id, form->scope, form->ttl);
    std::string out;
    base::JsonWriter json(out);
    json.begin_object();
    json.key("token").string(issued.token);
    json.key("expiresAt").string(base::rfc3339(issued.expires_at));
    json.end_object();
    co_return json_response(std::move(out), 201);
}

}  // namespace

std::vector<Route> token_routes(Api& api) {
    std::vector<Route> routes;
    if (api.tokens == nullptr)
        return routes;
    Route made{Method::post, "/v1/conversations/{id}/tokens", "createStreamToken",
               "Makes a token for `?token=`, with which a browser opens this conversation's stream.",
               bind_handler(api, async_create_token)};
    made.body = BodyKind::optional_json;
    made.request_schema = "CreateStreamToken";
    made.responses = {{201, "The token.", "StreamToken"}};
    made.errors = {Errc::not_found};
    routes.push_back(std::move(made));
    return routes;
}

}  // namespace atl::http
