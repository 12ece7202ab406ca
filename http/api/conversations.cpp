// Routes of conversations themselves; their messages and events are in turns.cpp.
#include <algorithm>

#include "core/base/json_dump.hpp"
#include "core/execution/executions.hpp"
#include "core/secrets/secrets.hpp"
#include "http/access/limit_ceilings.hpp"
#include "http/api/api.hpp"
#include "http/api/forms.hpp"
#include "http/api/list_query.hpp"
#include "http/api/network_form.hpp"
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

/// The conversation, with the content of its open turn; without it if that cannot be read any more: the
/// request itself has been done.
Task<Result<Response>> async_respond(Api& api, RequestContext& context, Result<View> view) {
    if (view.has_error())
        co_return view.error();
    if (view->open_turn && !view->open_turn->start) {
        using conversation::EventPtr;
        auto read = [&](Manager::Reply<EventPtr> reply) {
            api.conversations.read_start(*view, std::move(reply));
        };
        const auto start = co_await context.async_reply<EventPtr>(read);
        if (start.has_value())
            view->open_turn->start = *start;
    }
    co_return json_response(conversation_json(*view, api.system.public_url));
}

/// The one that a create names, or that of one that names none; null: there is no such agent.
const sandbox::AgentSpec* agent_of(const Api& api, const Json& body) {
    std::string name = api.system.default_agent;
    if (const auto named = body.find("agent"); named != body.end() && named->is_string())
        name = named->get<std::string>();
    const auto& agents = api.conversations.agents();
    const auto found = std::find_if(agents.begin(), agents.end(),
                                    [&](const sandbox::AgentSpec& agent) { return agent.name == name; });
    return found == agents.end() ? nullptr : &*found;
}

/// The refusal of a create without `network`, where the agent has no way to its model.
Error why_no_route(const sandbox::AgentSpec& agent) {
    return Error(Errc::invalid_field,
                 "The agent `" + agent.name + "` has no key for its model: " + agent.unset +
                     " is not set in the server's environment. The operator sets it and starts the server "
                     "again; or name a `network`, perhaps with a route that has a key of yours.")
        .at("/network");
}

Task<Result<Response>> async_create_conversation(Api& api, RequestContext& context) {
    const auto body = context.json_body_or_empty();
    if (body.has_error())
        co_return body.error();
    const sandbox::AgentSpec* const agent = agent_of(api, *body);
    sandbox::Limits limits = api.conversations.default_limits();
    if (agent != nullptr)
        limits = agent->limits.applied_to(limits);
    auto form = read_create_form(*body, ceilings_for(context.principal, api.system.ceilings), limits,
                                 api.conversations.default_preview());
    if (form.has_error())
        co_return form.error();
    if (auto open = claim_network(context.principal, form->network); open.has_error())
        co_return open.error();
    // The operator's routes are open to all who may name the agent.
    if (agent != nullptr && !body->contains("network")) {
        if (!agent->unset.empty())
            co_return why_no_route(*agent);
        if (agent->needs_network)
            form->network.mode = sandbox::NetworkMode::egress;
    }
    if (auto claimed = claim_user(context.principal, form->user_id); claimed.has_error())
        co_return claimed.error();
    const auto key = read_idempotency_key(context.request);
    if (key.has_error())
        co_return key.error();
    if (!key->empty()) {
        // Each user, and each API key without a user, has its own idempotency keys; they have no line break.
        const Principal& sender = context.principal;
        form->idempotency_key =
            (sender.user_id ? "u" + *sender.user_id : "k" + sender.limit_key) + '\n' + *key;
        form->fingerprint = base::json_dump(*body);
    }
    form->made_by = context.principal.limit_key;
    auto start = [&](Manager::Reply<View> reply) {
        api.conversations.create(std::move(*form), std::move(reply));
    };
    const auto view = co_await context.async_reply<View>(start);
    if (view.has_error())
        co_return view.error();
    Response response = json_response(conversation_json(*view, api.system.public_url), 201);
    response.headers.emplace_back("Location", "/v1/conversations/" + view->record.id);
    co_return response;
}

Task<Result<Response>> async_list_conversations(Api& api, RequestContext& context) {
    const auto query = read_list_query(context);
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
        write_conversation(json, view, TurnContent::left_out, api.system.public_url);
    json.end_array().key("next");
    if (page->next.empty())
        json.null();
    else
        json.string(page->next);
    json.end_object();
    co_return json_response(std::move(out));
}

Task<Result<Response>> async_get_conversation(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](Manager::Reply<View> reply) { api.conversations.get(*id, std::move(reply)); };
    auto view = co_await context.async_reply<View>(start);
    co_return co_await async_respond(api, context, std::move(view));
}

Task<Result<Response>> async_patch(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    auto patch = read_patch_form(*body, ceilings_for(context.principal, api.system.ceilings));
    if (patch.has_error())
        co_return patch.error();
    if (patch->network) {
        if (auto open = claim_network(context.principal, *patch->network); open.has_error())
            co_return open.error();
    }
    auto start = [&](Manager::Reply<View> reply) { api.conversations.patch(*id, *patch, std::move(reply)); };
    auto changed = co_await context.async_reply<View>(start);
    co_return co_await async_respond(api, context, std::move(changed));
}

Task<Result<Response>> async_remove_conversation(Api& api, RequestContext& context) {
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

Task<Result<Response>> async_erase_user(Api& api, RequestContext& context) {
    const std::string* const named = context.query_value("userId");
    if (named == nullptr || named->empty())
        co_return Error(
            Errc::invalid_field,
            "The query parameter `userId` must name the user whose conversations and sandboxes are "
            "to be removed.");
    std::optional<std::string> user_id = *named;
    if (auto claimed = claim_user(context.principal, user_id); claimed.has_error())
        co_return claimed.error();
    using conversation::ErasedUser;
    auto start = [&](Manager::Reply<ErasedUser> reply) {
        api.conversations.erase_user(*user_id, std::move(reply));
    };
    if (api.executions != nullptr)
        api.executions->erase_user(*user_id);
    // First: no sandbox of the user can use one while it goes.
    if (api.secrets != nullptr) {
        if (auto gone = api.secrets->erase_user(*user_id); gone.has_error())
            co_return gone.error();
    }
    const auto erased = co_await context.async_reply<ErasedUser>(start);
    if (erased.has_error())
        co_return erased.error();
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("conversations").number(erased->conversations);
    json.key("sandboxes").number(erased->sandboxes).end_object();
    co_return json_response(std::move(out));
}

Task<Result<Response>> async_interrupt(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](Manager::Reply<View> reply) { api.conversations.interrupt(*id, std::move(reply)); };
    auto view = co_await context.async_reply<View>(start);
    // Only API keys may read a conversation and its metadata: a token gets no body.
    if (view.has_value() && context.principal.is_token()) {
        Response done;
        done.status = 204;
        co_return done;
    }
    co_return co_await async_respond(api, context, std::move(view));
}

Task<Result<Response>> async_pause_conversation(Api& api, RequestContext& context) {
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
    auto view = co_await context.async_reply<View>(start);
    co_return co_await async_respond(api, context, std::move(view));
}

Task<Result<Response>> async_resume(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](Manager::Reply<View> reply) { api.conversations.resume(*id, std::move(reply)); };
    auto view = co_await context.async_reply<View>(start);
    co_return co_await async_respond(api, context, std::move(view));
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

Route create_conversation_route(Api& api) {
    Route made =
        route(api, Method::post, "/v1/conversations", "createConversation", async_create_conversation);
    made.summary = "Creates a conversation with its sandbox; answers when that is ready.";
    made.body = BodyKind::optional_json;
    made.request_schema = "CreateConversation";
    made.headers = {k_idempotency_parameter};
    made.responses = {{201, "The conversation, ready.", "Conversation"}};
    made.errors = {Errc::unknown_agent,
                   Errc::invalid_env,
                   Errc::network_not_allowed,
                   Errc::secret_not_found,
                   Errc::secret_host,
                   Errc::secret_unusable,
                   Errc::sandbox_failed,
                   Errc::agent_failed,
                   Errc::capacity,
                   Errc::storage_failed,
                   Errc::shutting_down,
                   Errc::host_unsupported,
                   Errc::bridge_failed,
                   Errc::deadline_exceeded,
                   Errc::user_not_allowed,
                   Errc::limit_not_allowed,
                   Errc::too_many_conversations,
                   Errc::idempotency_key_reused,
                   Errc::conversation_ended,
                   Errc::user_share};
    made.user_keys = UserKeys::allowed;
    return made;
}

Route list_conversations_route(Api& api) {
    Route made = route(api, Method::get, "/v1/conversations", "listConversations", async_list_conversations);
    made.summary = "Lists conversations, page by page.";
    made.query = list_parameters();
    made.responses = {{200, "A page.", "ConversationPage"}};
    made.errors = {Errc::invalid_field, Errc::user_not_allowed, Errc::storage_failed};
    made.user_keys = UserKeys::allowed;
    return made;
}

Route erase_route(Api& api) {
    Route made =
        route(api, Method::delete_, "/v1/conversations", "deleteConversationsOfUser", async_erase_user);
    made.summary =
        "Removes all that is kept of a user: secrets, conversations, ended ones too, and sandboxes; answers "
        "when "
        "nothing of it can be read any more. What is made meanwhile may stay. After an error it may be "
        "repeated.";
    made.query = {{"userId", R"({"type":"string","minLength":1})", "The user.", false, true}};
    made.responses = {{200, "How much was removed.", "ErasedUser"}};
    made.errors = {Errc::invalid_field, Errc::user_not_allowed, Errc::storage_failed, Errc::shutting_down};
    made.user_keys = UserKeys::allowed;
    return made;
}

}  // namespace

std::vector<Route> conversation_routes(Api& api) {
    constexpr std::string_view k_one = "/v1/conversations/{id}";
    std::vector<Route> routes;
    routes.push_back(create_conversation_route(api));
    routes.push_back(list_conversations_route(api));
    routes.push_back(erase_route(api));

    Route get = route(api, Method::get, k_one, "getConversation", async_get_conversation);
    get.summary = "One conversation.";
    get.responses = {{200, "The conversation.", "Conversation"}};
    routes.push_back(std::move(get));

    Route patch = route(api, Method::patch, k_one, "patchConversation", async_patch);
    patch.summary =
        "Changes the title, metadata (a merge patch, RFC 7396), limits, network, preview or timers.";
    patch.body = BodyKind::json;
    patch.request_schema = "PatchConversation";
    patch.responses = {{200, "The conversation as changed.", "Conversation"}};
    patch.errors.insert(
        patch.errors.end(),
        {Errc::conversation_ended, Errc::conversation_starting, Errc::limit_not_allowed,
         Errc::network_not_allowed, Errc::secret_not_found, Errc::secret_host, Errc::secret_unusable,
         Errc::host_unsupported, Errc::capacity, Errc::storage_failed, Errc::shutting_down});
    routes.push_back(std::move(patch));

    Route remove = route(api, Method::delete_, k_one, "deleteConversation", async_remove_conversation);
    remove.summary = "Removes the conversation, its sandbox and its workspace.";
    remove.responses = {{204, "It is gone, and no path leads to its files any more.", ""}};
    remove.errors.insert(remove.errors.end(),
                         {Errc::conversation_ended, Errc::storage_failed, Errc::shutting_down});
    routes.push_back(std::move(remove));

    Route interrupt = action_route(api, "/v1/conversations/{id}/interrupt", "interruptTurn", async_interrupt);
    interrupt.summary = "Asks the agent to stop the open turn.";
    interrupt.auth = Auth::token_or_key;
    interrupt.token_scope = Scope::chat;
    interrupt.query = {k_token_parameter};
    interrupt.responses.push_back({204, "It was asked; the answer to a token.", ""});
    interrupt.errors.push_back(Errc::no_turn);
    routes.push_back(std::move(interrupt));

    Route pause =
        action_route(api, "/v1/conversations/{id}/pause", "pauseConversation", async_pause_conversation);
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
    resume.errors.push_back(Errc::conversation_paused);
    resume.errors.insert(resume.errors.end(),
                         {Errc::sandbox_failed, Errc::agent_failed, Errc::user_share, Errc::capacity,
                          Errc::host_unsupported, Errc::bridge_failed, Errc::deadline_exceeded});
    routes.push_back(std::move(resume));
    return routes;
}

}  // namespace atl::http
