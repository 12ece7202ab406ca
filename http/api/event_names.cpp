#include "http/api/event_stream.hpp"
#include "http/server/context.hpp"

namespace atl::http {

base::Result<EventNames> event_names(const RequestContext& context) {
    const auto named = context.query_integer(k_named_parameter.name, {0, 1});
    if (named.has_error())
        return named.error();
    return named->value_or(0) == 1 ? EventNames::types : EventNames::none;
}

}  // namespace atl::http
