// Routes of sandboxes without a conversation.
#include "http/access/limit_ceilings.hpp"
#include "http/api/api.hpp"
#include "http/api/forms.hpp"
#include "http/api/network_form.hpp"
#include "http/api/ownership.hpp"
#include "http/api/views.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Result;
using base::Task;
using conversation::Manager;
using SandboxView = Manager::SandboxView;

Task<Result<Response>> async_create_sandbox(Api& api, RequestContext& context) {
    const auto body = context.json_body_or_empty();
    if (body.has_error())
        co_return body.error();
    auto form = read_sandbox_form(*body, ceilings_for(context.principal, api.system.ceilings),
                                  api.conversations.default_limits(), api.conversations.default_preview());
    if (form.has_error())
        co_return form.error();
    if (auto claimed = claim_user(context.principal, form->user_id); claimed.has_error())
        co_return claimed.error();
    if (auto open = claim_network(context.principal, form->network); open.has_error())
        co_return open.error();
    form->made_by = context.principal.limit_key;
    auto start = [&](Manager::Reply<SandboxView> reply) {
        api.conversations.create_sandbox(std::move(*form), std::move(reply));
    };
    const auto view = co_await context.async_reply<SandboxView>(start);
    if (view.has_error())
        co_return view.error();
    Response response = json_response(sandbox_json(*view, api.system.public_url), 201);
    response.headers.emplace_back("Location", "/v1/sandboxes/" + view->record.id);
    co_return response;
}

Task<Result<Response>> async_list_sandboxes(Api& api, RequestContext& context) {
    const auto limit = context.query_integer("limit", k_page_range);
    if (limit.has_error())
        co_return limit.error();
    conversation::SandboxQuery query;
    query.limit = limit->value_or(base::k_default_page_items);
    if (const std::string* cursor = context.query_value("cursor"))
        query.cursor = *cursor;
    if (const std::string* user_id = context.query_value("userId"))
        query.user_id = *user_id;
    if (auto claimed = claim_user(context.principal, query.user_id); claimed.has_error())
        co_return claimed.error();
    using Page = conversation::Page<SandboxView>;
    auto start = [&](Manager::Reply<Page> reply) {
        api.conversations.list_sandboxes(query, std::move(reply));
    };
    const auto page = co_await context.async_reply<Page>(start);
    if (page.has_error())
        co_return page.error();
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("sandboxes").begin_array();
    for (const SandboxView& view : page->items)
        write_sandbox(json, view, api.system.public_url);
    json.end_array().key("next");
    if (page->next.empty())
        json.null();
    else
        json.string(page->next);
    json.end_object();
    co_return json_response(std::move(out));
}

Task<Result<Response>> async_get_sandbox(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](Manager::Reply<SandboxView> reply) {
        api.conversations.get_sandbox(*id, std::move(reply));
    };
    const auto view = co_await context.async_reply<SandboxView>(start);
    if (view.has_error())
        co_return view.error();
    co_return json_response(sandbox_json(*view, api.system.public_url));
}

Task<Result<Response>> async_patch_sandbox(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    auto patch = read_sandbox_patch_form(*body, ceilings_for(context.principal, api.system.ceilings));
    if (patch.has_error())
        co_return patch.error();
    if (patch->network) {
        if (auto open = claim_network(context.principal, *patch->network); open.has_error())
            co_return open.error();
    }
    auto start = [&](Manager::Reply<SandboxView> reply) {
        api.conversations.patch_sandbox(*id, *patch, std::move(reply));
    };
    const auto changed = co_await context.async_reply<SandboxView>(start);
    if (changed.has_error())
        co_return changed.error();
    co_return json_response(sandbox_json(*changed, api.system.public_url));
}

Task<Result<Response>> async_remove_sandbox(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](Manager::Reply<void> reply) { api.conversations.remove_sandbox(*id, std::move(reply)); };
    const auto removed = co_await context.async_reply<void>(start);
    if (removed.has_error())
        co_return removed.error();
    Response response;
    response.status = 204;
    co_return response;
}

Route create_sandbox_route(Api& api) {
    Route made{Method::post, "/v1/sandboxes", "createSandbox",
               "Creates a sandbox without a conversation; answers when it is ready.",
               bind_handler(api, async_create_sandbox)};
    made.body = BodyKind::optional_json;
    made.request_schema = "CreateSandbox";
    made.responses = {{201, "The sandbox, ready.", "Sandbox"}};
    made.errors = {Errc::invalid_env,       Errc::network_not_allowed,
                   Errc::secret_not_found,  Errc::secret_host,
                   Errc::sandbox_failed,    Errc::sandbox_gone,
                   Errc::user_share,        Errc::capacity,
                   Errc::storage_failed,    Errc::shutting_down,
                   Errc::host_unsupported,  Errc::bridge_failed,
                   Errc::deadline_exceeded, Errc::limit_not_allowed,
                   Errc::user_not_allowed,  Errc::too_many_conversations};
    made.user_keys = UserKeys::allowed;
    return made;
}

Route list_sandboxes_route(Api& api) {
    Route made{Method::get, "/v1/sandboxes", "listSandboxes", "Lists sandboxes, page by page.",
               bind_handler(api, async_list_sandboxes)};
    made.query = {
        {"userId", R"({"type":"string"})", "Only those of this user, and of this user's conversations."},
        {"limit", R"({"type":"integer","minimum":1,"maximum":10000,"default":100})", "Items in a page."},
        {"cursor", R"({"type":"string"})", "`next` of the page before."}};
    made.responses = {{200, "A page.", "SandboxPage"}};
    made.errors = {Errc::invalid_field, Errc::user_not_allowed, Errc::storage_failed};
    made.user_keys = UserKeys::allowed;
    return made;
}

}  // namespace

std::vector<Route> sandbox_routes(Api& api) {
    std::vector<Route> routes;
    routes.push_back(create_sandbox_route(api));
    routes.push_back(list_sandboxes_route(api));

    Route get{Method::get, "/v1/sandboxes/{id}", "getSandbox", "One sandbox.",
              bind_handler(api, async_get_sandbox)};
    get.responses = {{200, "The sandbox.", "Sandbox"}};
    get.errors = {Errc::not_found};
    routes.push_back(std::move(get));

    Route patch{Method::patch, "/v1/sandboxes/{id}", "patchSandbox",
                "Changes the limits, network, preview or time to live of a sandbox without a conversation.",
                bind_handler(api, async_patch_sandbox)};
    patch.body = BodyKind::json;
    patch.request_schema = "PatchSandbox";
    patch.responses = {{200, "The sandbox as changed.", "Sandbox"}};
    patch.errors = {
        Errc::not_found,        Errc::sandbox_in_use, Errc::limit_not_allowed, Errc::network_not_allowed,
        Errc::secret_not_found, Errc::secret_host,    Errc::capacity,          Errc::host_unsupported,
        Errc::storage_failed,   Errc::shutting_down};
    routes.push_back(std::move(patch));

    Route remove{Method::delete_, "/v1/sandboxes/{id}", "deleteSandbox",
                 "Removes a sandbox and its workspace.", bind_handler(api, async_remove_sandbox)};
    remove.responses = {{204, "It is gone, and no path leads to its files any more.", ""}};
    remove.errors = {Errc::not_found, Errc::sandbox_in_use, Errc::storage_failed, Errc::shutting_down};
    routes.push_back(std::move(remove));
    return routes;
}

}  // namespace atl::http
