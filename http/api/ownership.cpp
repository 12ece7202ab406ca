#include "http/api/ownership.hpp"

#include "core/base/ids.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

/// Whether `pattern` is `prefix` itself or a path below it.
bool is_below(std::string_view pattern, std::string_view prefix) noexcept {
    return pattern.starts_with(prefix) && (pattern.size() == prefix.size() || pattern[prefix.size()] == '/');
}

Result<void> check_conversation(Api& api, const Principal& principal, const std::string& id) {
    if (principal.unrestricted())
        return {};
    // A token was checked against the path already, so it opens only its own conversation.
    if (principal.conversation_id) {
        if (principal.conversation_id != id)
            return Error(Errc::unauthorized);
        return {};
    }
    if (!base::is_id(id))
        return Error(Errc::not_found);
    const auto view = api.conversations.get(id);
    // The same answer for another user's id and for an unknown id: a client cannot learn which ids exist.
    if (view.has_error() || view->record.user_id != principal.user_id)
        return Error(Errc::not_found);
    return {};
}

Result<void> check_sandbox(Api& api, const Principal& principal, const std::string& id) {
    if (principal.unrestricted())
        return {};
    if (!base::is_id(id))
        return Error(Errc::not_found);
    const auto view = api.conversations.get_sandbox(id);
    if (view.has_error())
        return Error(Errc::not_found);
    return check_conversation(api, principal, view->record.conversation_id);
}

Result<void> check_unrestricted(const RequestContext& context) {
    if (!context.principal.unrestricted())
        return Error(Errc::key_restricted);
    return {};
}

}  // namespace

void guard_route(Api& api, Route& route) {
    if (route.auth == Auth::open || route.user_keys == UserKeys::allowed)
        return;
    if (is_below(route.pattern, "/v1/conversations/{id}")) {
        route.guard = [&api](const RequestContext& context) {
            return check_conversation(api, context.principal, context.param("id"));
        };
        route.errors.push_back(Errc::not_found);
    } else if (is_below(route.pattern, "/v1/sandboxes/{id}")) {
        route.guard = [&api](const RequestContext& context) {
            return check_sandbox(api, context.principal, context.param("id"));
        };
        route.errors.push_back(Errc::not_found);
    } else {
        route.guard = check_unrestricted;
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

Result<void> check_network(const Principal& principal, sandbox::NetworkMode network) {
    if (network == sandbox::NetworkMode::host && principal.user_id)
        return Error(Errc::network_not_allowed, "Network \"host\" is for keys without a user.");
    return {};
}

}  // namespace atl::http
