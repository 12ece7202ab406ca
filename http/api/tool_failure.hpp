// The results of calls that fail before the tool is at work. What the guest's tools answer is passed on as it
// comes.
#pragma once

#include <string>
#include <string_view>

#include "core/base/json_writer.hpp"

namespace atl::http {

struct ToolFailure {
    std::string_view code;  // of base::tool_error
    std::string_view error;
    std::string_view user_feedback;
    std::string_view suggestion{};  // empty: none
};

/// The result object. `context` is the text of an object; empty: the call has none.
inline std::string failure_json(const ToolFailure& failure, std::string_view context) {
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("success").raw("false");
    json.key("userFeedback").string(failure.user_feedback);
    json.key("previewRefreshNeeded").raw("false").key("technicalDetails").begin_object();
    json.key("error").string(failure.error).key("errorCode").string(failure.code).end_object();
    if (!failure.suggestion.empty())
        json.key("suggestions").begin_array().string(failure.suggestion).end_array();
    if (!context.empty())
        json.key("context").raw(context);
    json.end_object();
    return out;
}

}  // namespace atl::http
