// The query parameters of GET /v1/conversations: which conversations, in which order, which page.
#pragma once

#include <vector>

#include "core/conversation/requests.hpp"
#include "http/server/context.hpp"
#include "http/server/router.hpp"

namespace atl::http {

std::vector<QueryParameter> list_parameters();

/// Reads the list_parameters() of a request. A key with a user lists that user's conversations only. Errors:
/// invalid_field, user_not_allowed.
base::Result<conversation::ListQuery> read_list_query(const RequestContext& context);

}  // namespace atl::http
