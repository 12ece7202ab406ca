// The routes that make stream tokens.
#include "core/base/json_writer.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/api/api.hpp"
#include "http/api/forms.hpp"
#include "http/api/views.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Result;
using base::Task;

/// `preview`: the address of the sandbox's preview; empty: it has none.
Response issued_token(const Api& api, std::string_view id, const TokenForm& form,
                      const std::string& preview) {
    const auto issued = api.tokens->issue(id, form.scope, form.ttl);
    std::string out;
    base::JsonWriter json(out);
    json.begin_object();
    json.key("token").string(issued.token);
    json.key("expiresAt").string(base::rfc3339(issued.expires_at));
    if (form.scope == Scope::preview) {
        json.key("url");
        if (preview.empty())
            json.null();
        else
            json.string(preview + ".atoll/enter?token=" + issued.token);
    }
    json.end_object();
    return json_response(std::move(out), 201);
}

Task<Result<Response>> async_create_token(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body_or_empty();
    if (body.has_error())
        co_return body.error();
    const auto form = read_token_form(*body, TokenOf::conversation);
    if (form.has_error())
        co_return form.error();
    auto start = [&](conversation::Reply<conversation::View> reply) {
        api.conversations.get(*id, std::move(reply));
    };
    const auto view = co_await context.async_reply<conversation::View>(start);
    if (view.has_error())
        co_return view.error();
    const std::string& sandbox_id = view->record.sandbox_id;
    const std::string preview =
        preview_url(api.system.public_url, sandbox_id, view->network.mode, view->preview);
    co_return issued_token(api, is_of_sandbox(form->scope) ? sandbox_id : *id, *form, preview);
}

Task<Result<Response>> async_create_sandbox_token(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    const auto form = read_token_form(*body, TokenOf::sandbox);
    if (form.has_error())
        co_return form.error();
    auto start = [&](conversation::Reply<conversation::SandboxView> reply) {
        api.conversations.get_sandbox(*id, std::move(reply));
    };
    const auto view = co_await context.async_reply<conversation::SandboxView>(start);
    if (view.has_error())
        co_return view.error();
    const auto& record = view->record;
    const std::string preview = preview_url(api.system.public_url, *id, record.network, record.preview);
    co_return issued_token(api, *id, *form, preview);
}

}  // namespace

std::vector<Route> token_routes(Api& api) {
    std::vector<Route> routes;
    if (api.tokens == nullptr)
        return routes;
    Route made{
        Method::post, "/v1/conversations/{id}/tokens", "createStreamToken",
        "Makes a token for `?token=`, with which a browser opens this conversation's stream, or the files "
        "or processes of its sandbox.",
        bind_handler(api, async_create_token)};
    made.body = BodyKind::optional_json;
    made.request_schema = "CreateStreamToken";
    made.responses = {{201, "The token.", "StreamToken"}};
    made.errors = {Errc::not_found};
    routes.push_back(std::move(made));

    Route of_sandbox{
        Method::post, "/v1/sandboxes/{id}/tokens", "createSandboxToken",
        "Makes a token for `?token=`, with which a browser opens this sandbox's files or processes.",
        bind_handler(api, async_create_sandbox_token)};
    of_sandbox.body = BodyKind::json;
    of_sandbox.request_schema = "CreateSandboxToken";
    of_sandbox.responses = {{201, "The token.", "StreamToken"}};
    of_sandbox.errors = {Errc::not_found, Errc::storage_failed, Errc::shutting_down};
    routes.push_back(std::move(of_sandbox));
    return routes;
}

}  // namespace atl::http
