#include "http/api/ownership.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/ids.hpp"
#include "core/execution/executions.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using conversation::Reply;
using conversation::SandboxView;
using conversation::View;

/// True if `pattern` is `prefix` itself or a path below it.
bool is_below(std::string_view pattern, std::string_view prefix) noexcept {
    return pattern.starts_with(prefix) && (pattern.size() == prefix.size() || pattern[prefix.size()] == '/');
}

Task<Result<void>> async_check_conversation(Api& api, RequestContext& context, std::string id) {
    const Principal& principal = context.principal;
    if (principal.unrestricted())
        co_return Result<void>();
    // A token was checked against the path already, so it opens only its own conversation.
    if (principal.is_token() && principal.conversation_id != id)
        co_return Error(Errc::token_mismatch);
    if (!base::is_id(id))
        co_return Error(Errc::not_found);
    auto look = [&](Reply<View> reply) { api.conversations.get(id, std::move(reply)); };
    const auto view = co_await context.async_reply<View>(look);
    if (principal.is_token()) {
        // Only whom budgets charge: the handler tells what went wrong.
        if (view.has_value())
            context.principal.owner_id = view->record.user_id;
        co_return Result<void>();
    }
    if (view.has_error() && view.error().code() != Errc::not_found)
        co_return view.error();
    // The same answer for another user's id and for an unknown id: a client cannot learn which ids exist.
    if (view.has_error() || view->record.user_id != principal.user_id)
        co_return Error(Errc::not_found);
    co_return Result<void>();
}

Task<Result<void>> async_check_execution(Api& api, RequestContext& context) {
    const Principal& principal = context.principal;
    const std::string& id = context.param("id");
    // A token for reading or chatting names what it is for as a conversation's does.
    if (principal.is_token() && principal.conversation_id != id)
        co_return Error(Errc::token_mismatch);
    if (principal.unrestricted())
        co_return Result<void>();
    const auto found = base::is_id(id) ? api.executions->find(id) : nullptr;
    if (principal.is_token()) {
        if (found != nullptr)
            context.principal.owner_id = found->user_id();
        co_return Result<void>();
    }
    if (found == nullptr || found->user_id() != principal.user_id)
        co_return Error(Errc::not_found);
    co_return Result<void>();
}

Task<Result<void>> async_check_unrestricted(RequestContext& context) {
    if (!context.principal.unrestricted())
        co_return Error(Errc::key_restricted);
    co_return Result<void>();
}

}  // namespace

Task<Result<void>> async_check_sandbox(Api& api, RequestContext& context, std::string id) {
    if (context.principal.unrestricted())
        co_return Result<void>();
    if (context.principal.is_token()) {
        if (context.principal.sandbox_id != id)
            co_return Error(Errc::token_mismatch);
        using Owner = std::optional<std::string>;
        auto ask = [&](Reply<Owner> reply) { api.conversations.owner_of(id, std::move(reply)); };
        const auto owner = co_await context.async_reply<Owner>(ask);
        if (owner.has_value())
            context.principal.owner_id = *owner;
        co_return Result<void>();
    }
    if (!base::is_id(id))
        co_return Error(Errc::not_found);
    auto look = [&](Reply<SandboxView> reply) { api.conversations.get_sandbox(id, std::move(reply)); };
    const auto view = co_await context.async_reply<SandboxView>(look);
    if (view.has_error())
        co_return view.error().code() == Errc::not_found ? Error(Errc::not_found) : view.error();
    if (!view->record.conversation_id.empty())
        co_return co_await async_check_conversation(api, context, view->record.conversation_id);
    if (view->record.user_id != context.principal.user_id)
        co_return Error(Errc::not_found);
    co_return Result<void>();
}

namespace {

/// The things that an `{id}` names.
enum class IdKind : std::uint8_t { conversation, sandbox, execution };

/// None: the route has no id.
std::optional<IdKind> kind_of(std::string_view pattern) noexcept {
    if (is_below(pattern, "/v1/conversations/{id}"))
        return IdKind::conversation;
    if (is_below(pattern, "/v1/sandboxes/{id}"))
        return IdKind::sandbox;
    if (is_below(pattern, "/v1/executions/{id}"))
        return IdKind::execution;
    return std::nullopt;
}

std::string told_sandbox(const SandboxView& view) {
    const std::string& conversation = view.record.conversation_id;
    return conversation.empty() ? "This is the id of a sandbox without a conversation."
                                : "This is a sandbox's id; its conversation is " + conversation + '.';
}

/// The kind of the thing that has this id, with what belongs to it; empty where it is a `wanted` one, or none
/// that the key may see.
Task<std::string> async_tell_kind(Api& api, RequestContext& context, std::string id,
                                  std::optional<IdKind> wanted) {
    if (context.principal.is_token() || !base::is_id(id))
        co_return std::string();
    if (wanted != IdKind::sandbox) {
        auto look = [&](Reply<SandboxView> reply) { api.conversations.get_sandbox(id, std::move(reply)); };
        const auto view = co_await context.async_reply<SandboxView>(look);
        const auto may_see = co_await async_check_sandbox(api, context, id);
        if (view.has_value() && may_see.has_value())
            co_return told_sandbox(*view);
    }
    if (wanted != IdKind::conversation) {
        auto look = [&](Reply<View> reply) { api.conversations.get(id, std::move(reply)); };
        const auto view = co_await context.async_reply<View>(look);
        const auto may_see = co_await async_check_conversation(api, context, id);
        if (view.has_value() && may_see.has_value()) {
            std::string told = "This is a conversation's id; its sandbox is " + view->record.sandbox_id + '.';
            co_return told;
        }
    }
    const Principal& principal = context.principal;
    const auto run =
        wanted == IdKind::execution || api.executions == nullptr ? nullptr : api.executions->find(id);
    if (run != nullptr && (principal.unrestricted() || run->user_id() == principal.user_id))
        co_return std::string("This is the id of an execution.");
    co_return std::string();
}

/// The not_found to give in place of `error` where the id is of a thing of another kind. Who may not see
/// that thing gets `error`.
Task<Error> async_name_kind(Api& api, RequestContext& context, IdKind wanted, Error error) {
    if (error.code() != Errc::not_found)
        co_return error;
    const std::string id = context.param("id");
    std::string told = co_await async_tell_kind(api, context, id, wanted);
    const auto process = std::find_if(context.params.begin(), context.params.end(),
                                      [](const auto& param) { return param.first == "processId"; });
    if (told.empty() && process != context.params.end()) {
        const std::string process_id = process->second;
        const std::optional<IdKind> none;
        auto of_process = co_await async_tell_kind(api, context, process_id, none);
        told = std::move(of_process);
    }
    if (told.empty())
        co_return error;
    const Error named(Errc::not_found, told);
    co_return named;
}

Task<Result<void>> async_check(Api& api, RequestContext& context, IdKind kind) {
    const std::string id = context.param("id");
    if (kind == IdKind::conversation)
        return async_check_conversation(api, context, id);
    if (kind == IdKind::sandbox)
        return async_check_sandbox(api, context, id);
    return async_check_execution(api, context);
}

Task<Result<void>> async_guard(Api& api, RequestContext& context, IdKind kind) {
    const auto checked = co_await async_check(api, context, kind);
    if (checked.has_value())
        co_return Result<void>();
    const Error error = checked.error();
    const Error told = co_await async_name_kind(api, context, kind, error);
    co_return told;
}

/// `handler` outlives the task.
Task<Result<Response>> async_handle(Api& api, RequestContext& context, IdKind kind, const Handler& handler) {
    auto answer = co_await handler(context);
    if (answer.has_value())
        co_return std::move(answer);
    const Error error = answer.error();
    const Error told = co_await async_name_kind(api, context, kind, error);
    co_return told;
}

}  // namespace

void guard_route(Api& api, Route& route) {
    if (route.auth == Auth::open || route.user_keys == UserKeys::allowed)
        return;
    const auto kind = kind_of(route.pattern);
    if (!kind) {
        route.guard = async_check_unrestricted;
        route.errors.push_back(Errc::key_restricted);
        return;
    }
    route.guard = [&api, kind = *kind](RequestContext& context) { return async_guard(api, context, kind); };
    route.handler = [&api, kind = *kind, handler = std::move(route.handler)](RequestContext& context) {
        return async_handle(api, context, kind, handler);
    };
    route.errors.push_back(Errc::not_found);
}

Task<std::string> async_told_kind(Api& api, RequestContext& context, std::string id) {
    return async_tell_kind(api, context, std::move(id), IdKind::sandbox);
}

Result<void> claim_user(const Principal& principal, std::optional<std::string>& user_id) {
    if (!principal.user_id)
        return {};
    if (user_id && user_id != principal.user_id)
        return Error(Errc::user_not_allowed);
    user_id = principal.user_id;
    return {};
}

}  // namespace atl::http
