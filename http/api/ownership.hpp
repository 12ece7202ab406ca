// The reach of a key that belongs to one user. make_router puts one guard on every route, and the session
// calls it before the handler runs, so a new route is covered as soon as it is in the table:
//     /v1/conversations/{id}…   the conversation's user must be the key's
//     /v1/sandboxes/{id}…       the user of the sandbox's conversation must be
//     /v1/executions/{id}…      who began the execution must be
//     any other                 refused, unless the route says UserKeys::allowed and keeps to the user itself
// A stream token opens only the routes of its own conversation or sandbox that take tokens of its scope. A
// conversation of another user answers not_found, exactly like one that does not exist. Where the id, or that
// of a process behind it, is that of another kind of thing which the key may see, the detail says so.
#pragma once

#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "http/access/access.hpp"
#include "http/api/api.hpp"
#include "http/server/router.hpp"

namespace atl::http {

/// Sets the route's guard, adds the errors that it gives, and has its handler name ids of another kind. `api`
/// must outlive the route.
void guard_route(Api& api, Route& route);

/// Checks that the request's key may use the sandbox `id`, for a route whose path does not name it. Errors:
/// not_found, also if there is no such sandbox; storage_failed.
base::Task<base::Result<void>> async_check_sandbox(Api& api, RequestContext& context, std::string id);

/// Tells the kind of the thing that has `id`, which is no sandbox's, for the detail of a not_found; empty:
/// there is none that the request's key may see.
base::Task<std::string> async_told_kind(Api& api, RequestContext& context, std::string id);

/// Checks the user in a body or a query: an absent user becomes the key's user, another user is refused. A
/// key without a user may name any user. Errors: user_not_allowed.
base::Result<void> claim_user(const Principal& principal, std::optional<std::string>& user_id);

}  // namespace atl::http
