// Routes of conversations themselves; their messages and events are in turns.cpp.
#include "http/access/limit_ceilings.hpp"
#include "http/api/api.hpp"
#include "http/api/forms.hpp"
#include "http/api/ownership.hpp"
#include "http/api/views.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using conversation::Manager;
using conversation::View;

Result<Response> respond(const Result<View>& view) {
    if (view.has_error())
        return view.error();
    return json_response(conversation_json(*view));
}

Task<Result<Response>> async_create(Api& api, RequestContext& context) {
    const auto body = context.json_body_or_empty();
    if (body.has_error())
        co_return body.error();
    auto form = read_create_form(*body, ceilings_for(context.principal, api.system.ceilings),
                                 api.conversations.default_limits());
    if (form.has_error())
        co_return form.error();
    if (auto open = check_network(context.principal, form->network); open.has_error())
        co_return open.error();
    if (auto claimed = claim_user(context.principal, form->user_id); claimed.has_error())
        co_return claimed.error();
    auto start = [&](Manager::Reply<View> reply) {
        api.conversations.create(std::move(*form), std::move(reply));
    };
    const auto view = co_await context.async_reply<View>(start);
    if (view.has_error())
        co_return view.error();
    Response response = json_response(conversation_json(*view), 201);
    response.headers.emplace_back("Location", "/v1/conversations/" + view->record.id);
    co_return response;
}

Result<conversation::ListQuery> list_query(const RequestContext& context) {
    conversation::ListQuery query;
    const auto limit = context.query_integer("limit", k_page_range);
    if (limit.has_error())
        return limit.error();
    query.limit = limit->value_or(base::k_default_page_items);
    if (const std::string* status = context.query_value("status")) {
        query.status = conversation::parse_status(*status);
        if (!query.status)
            return Error(Errc::invalid_field,
                         "The query parameter `status` must be a status of a conversation.");
    }
    if (const std::string* user_id = context.query_value("userId"))
        query.user_id = *user_id;
    if (const std::string* cursor = context.query_value("cursor"))
        query.cursor = *cursor;
    if (auto claimed = claim_user(context.principal, query.user_id); claimed.has_error())
        return claimed.error();
    if (const std::string* order = context.query_value("order")) {
        if (*order != "oldest" && *order != "newest")
            return Error(Errc::invalid_field, "The query parameter `order` must be oldest or newest.");
        if (*order == "newest")
            query.order = conversation::ListOrder::newest_first;
    }
    return query;
}

Task<Result<Response>> async_list(Api& api, RequestContext& context) {
    const auto query = list_query(context);
    if (query.has_error())
        co_return query.error();
    using Page = conversation::Page<View>;
    auto start = [&](Manager::Reply<Page> reply) { api.conversations.list(*query, std::move(reply)); };
    const auto page = co_await context.async_reply<Page>(start);
    if (page.has_error())
        co_return page.error();
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("conversations").begin_array();
    for (const View& view : page->items)
        write_conversation(json, view);
    json.end_array().key("next");
    if (page->next.empty())
        json.null();
    else
        json.string(page->next);
    json.end_object();
    co_return json_response(std::move(out));
}

Task<Result<Response>> async_get(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](Manager::Reply<View> reply) { api.conversations.get(*id, std::move(reply)); };
    const auto view = co_await context.async_reply<View>(start);
    co_return respond(view);
}

Task<Result<Response>> async_patch(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    const auto form = read_patch_form(*body, ceilings_for(context.principal, api.system.ceilings));
    if (form.has_error())
        co_return form.error();
    auto look = [&](Manager::Reply<View> reply) { api.conversations.get(*id, std::move(reply)); };
    const auto before = co_await context.async_reply<View>(look);
    if (before.has_error())
        co_return before.error();
    conversation::PatchRequest patch;
    patch.metadata = form->metadata;
    if (form->limits)
        patch.limits = form->limits->applied_to(before->limits);
    patch.idle_seconds = form->idle_seconds;
    patch.ttl_seconds = form->ttl_seconds;
    auto start = [&](Manager::Reply<View> reply) { api.conversations.patch(*id, patch, std::move(reply)); };
    const auto changed = co_await context.async_reply<View>(start);
    co_return respond(changed);
}

Task<Result<Response>> async_remove(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](Manager::Reply<void> reply) { api.conversations.remove(*id, std::move(reply)); };
    const auto removed = co_await context.async_reply<void>(start);
    if (removed.has_error())
        co_return removed.error();
    Response response;
    response.status = 204;
    co_return response;
}

Task<Result<Response>> async_interrupt(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](Manager::Reply<View> reply) { api.conversations.interrupt(*id, std::move(reply)); };
    const auto view = co_await context.async_reply<View>(start);
    co_return respond(view);
}

Task<Result<Response>> async_pause(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body_or_empty();
    if (body.has_error())
        co_return body.error();
    const auto mode = read_pause_form(*body);
    if (mode.has_error())
        co_return mode.error();
    auto start = [&](Manager::Reply<View> reply) { api.conversations.pause(*id, *mode, std::move(reply)); };
    const auto view = co_await context.async_reply<View>(start);
    co_return respond(view);
}

Task<Result<Response>> async_resume(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](Manager::Reply<View> reply) { api.conversations.resume(*id, std::move(reply)); };
    const auto view = co_await context.async_reply<View>(start);
    co_return respond(view);
}

Route route(Api& api, Method method, std::string_view pattern, std::string_view name, ApiHandler handler) {
    Route made{method, pattern, name, "", bind_handler(api, handler)};
    if (pattern.find("{id}") != std::string_view::npos)
        made.errors.push_back(Errc::not_found);
    return made;
}

Route action_route(Api& api, std::string_view pattern, std::string_view name, ApiHandler handler) {
    Route made = route(api, Method::post, pattern, name, handler);
    made.responses = {{200, "The conversation.", "Conversation"}};
    made.errors.insert(made.errors.end(), {Errc::conversation_ended, Errc::conversation_starting,
                                           Errc::storage_failed, Errc::shutting_down});
    return made;
}

Route create_route(Api& api) {
    Route made = route(api, Method::post, "/v1/conversations", "createConversation", async_create);
    made.summary = "Creates a conversation with its sandbox; answers when that is ready.";
    made.body = BodyKind::optional_json;
    made.request_schema = "CreateConversation";
    made.responses = {{201, "The conversation, ready.", "Conversation"}};
    made.errors = {Errc::unknown_agent,         Errc::invalid_env,      Errc::network_not_allowed,
                   Errc::sandbox_failed,        Errc::capacity,         Errc::storage_failed,
                   Errc::shutting_down,         Errc::host_unsupported, Errc::bridge_failed,
                   Errc::deadline_exceeded,     Errc::user_not_allowed, Errc::limit_not_allowed,
                   Errc::too_many_conversations};
    made.user_keys = UserKeys::allowed;
    return made;
}

Route list_route(Api& api) {
    Route made = route(api, Method::get, "/v1/conversations", "listConversations", async_list);
    made.summary = "Lists conversations, page by page.";
    made.query = {
        {"status", R"({"$ref":"#/components/schemas/ConversationStatus"})", "Only those of this status."},
        {"userId", R"({"type":"string"})", "Only those of this user."},
        {"limit", R"({"type":"integer","minimum":1,"maximum":10000,"default":100})", "Items in a page."},
        {"cursor", R"({"type":"string"})", "`next` of the page before, in the same order."},
        {"order", R"({"enum":["oldest","newest"],"default":"oldest"})", "Which come first."}};
    made.responses = {{200, "A page.", "ConversationPage"}};
    made.errors = {Errc::invalid_field, Errc::user_not_allowed};
    made.user_keys = UserKeys::allowed;
    return made;
}

}  // namespace

std::vector<Route> conversation_routes(Api& api) {
    constexpr std::string_view k_one = "/v1/conversations/{id}";
    std::vector<Route> routes;
    routes.push_back(create_route(api));
    routes.push_back(list_route(api));

    Route get = route(api, Method::get, k_one, "getConversation", async_get);
    get.summary = "One conversation.";
    get.responses = {{200, "The conversation.", "Conversation"}};
    routes.push_back(std::move(get));

    Route patch = route(api, Method::patch, k_one, "patchConversation", async_patch);
    patch.summary = "Changes metadata, limits or timers.";
    patch.body = BodyKind::json;
    patch.request_schema = "PatchConversation";
    patch.responses = {{200, "The conversation as changed.", "Conversation"}};
    patch.errors.insert(patch.errors.end(),
                        {Errc::conversation_ended, Errc::conversation_starting, Errc::limit_not_allowed,
                         Errc::capacity, Errc::storage_failed, Errc::shutting_down});
    routes.push_back(std::move(patch));

    Route remove = route(api, Method::delete_, k_one, "deleteConversation", async_remove);
    remove.summary = "Removes the conversation, its sandbox and its workspace.";
    remove.responses = {{204, "All of it is gone.", ""}};
    remove.errors.insert(remove.errors.end(),
                         {Errc::conversation_ended, Errc::storage_failed, Errc::shutting_down});
    routes.push_back(std::move(remove));

    Route interrupt = action_route(api, "/v1/conversations/{id}/interrupt", "interruptTurn", async_interrupt);
    interrupt.summary = "Asks the agent to stop the open turn.";
    interrupt.errors.push_back(Errc::no_turn);
    routes.push_back(std::move(interrupt));

    Route pause = action_route(api, "/v1/conversations/{id}/pause", "pauseConversation", async_pause);
    pause.summary =
        "Ends the sandbox and keeps the workspace; `warm` freezes the sandbox instead, for some time and "
        "where "
        "the server can.";
    pause.body = BodyKind::optional_json;
    pause.request_schema = "PauseConversation";
    pause.errors.push_back(Errc::turn_in_progress);
    routes.push_back(std::move(pause));

    Route resume = action_route(api, "/v1/conversations/{id}/resume", "resumeConversation", async_resume);
    resume.summary = "Lets a frozen sandbox go on, or starts it again; answers when it is ready.";
    resume.errors.insert(resume.errors.end(), {Errc::sandbox_failed, Errc::capacity, Errc::host_unsupported,
                                               Errc::bridge_failed, Errc::deadline_exceeded});
    routes.push_back(std::move(resume));
    return routes;
}

}  // namespace atl::http
