#include "http/api/event_stream.hpp"
#include "http/server/context.hpp"

namespace atl::http {

base::Result<EventNames> event_names(const RequestContext& context) {
    const auto named = context.query_integer(k_named_parameter.name, {0, 1});
    if (named.has_error())
        return named.error();
    return named->value_or(0) == 1 ? EventNames::types : EventNames::none;
}

base::Result<conversation::Cursor> log_cursor(const RequestContext& context) {
    const std::string* const text = context.query_value(k_log_cursor_parameter.name);
    if (text == nullptr)
        return conversation::Cursor{};
    auto cursor = parse_log_cursor(*text);
    if (!cursor)
        return base::Error(
            base::Errc::invalid_field,
            "The query parameter `after` must be the seq of an event, or SEQ-EPOCH as in the ids of "
            "Server-Sent Events.");
    return std::move(*cursor);
}

}  // namespace atl::http
