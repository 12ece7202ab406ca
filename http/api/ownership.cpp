#include "http/api/ownership.hpp"

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

/// Whether `pattern` is `prefix` itself or a path below it.
bool is_below(std::string_view pattern, std::string_view prefix) noexcept {
    return pattern.starts_with(prefix) && (pattern.size() == prefix.size() || pattern[prefix.size()] == '/');
}

Task<Result<void>> async_check_conversation(Api& api, RequestContext& context, std::string id) {
    const Principal& principal = context.principal;
    if (principal.unrestricted())
        co_return Result<void>();
    // A token was checked against the path already, so it opens only its own conversation.
    if (principal.is_token()) {
        if (principal.conversation_id != id)
            co_return Error(Errc::token_mismatch);
        co_return Result<void>();
    }
    if (!base::is_id(id))
        co_return Error(Errc::not_found);
    auto look = [&](Reply<View> reply) { api.conversations.get(id, std::move(reply)); };
    const auto view = co_await context.async_reply<View>(look);
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
    if (principal.unrestricted() || principal.is_token())
        co_return Result<void>();
    const auto found = base::is_id(id) ? api.executions->find(id) : nullptr;
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

void guard_route(Api& api, Route& route) {
    if (route.auth == Auth::open || route.user_keys == UserKeys::allowed)
        return;
    if (is_below(route.pattern, "/v1/conversations/{id}")) {
        route.guard = [&api](RequestContext& context) {
            return async_check_conversation(api, context, context.param("id"));
        };
        route.errors.push_back(Errc::not_found);
    } else if (is_below(route.pattern, "/v1/sandboxes/{id}")) {
        route.guard = [&api](RequestContext& context) {
            return async_check_sandbox(api, context, context.param("id"));
        };
        route.errors.push_back(Errc::not_found);
    } else if (is_below(route.pattern, "/v1/executions/{id}")) {
        route.guard = [&api](RequestContext& context) { return async_check_execution(api, context); };
        route.errors.push_back(Errc::not_found);
    } else {
        route.guard = async_check_unrestricted;
        route.errors.push_back(Errc::key_restricted);
    }
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
