#include "bridge/guest/tools/tool_result.hpp"

#include <utility>

#include "core/plain/json_text.hpp"
#include "core/plain/utf8.hpp"

namespace atl::guest {
namespace {

// The usual size of a result object without its data, details and context.
constexpr std::size_t k_usual_rest_bytes = 1024;

}  // namespace

void append_repaired(std::string& out, std::string_view text) {
    if (base::is_utf8(text))
        return base::append_json_string(out, text);
    std::string repaired;
    base::Utf8Repair repair;
    repair.feed(text, repaired);
    repair.finish(repaired);
    base::append_json_string(out, repaired);
}

void JsonObject::key(std::string_view name) {
    if (!members_.empty())
        members_ += ',';
    base::append_json_string(members_, name);
    members_ += ':';
}

JsonObject& JsonObject::text(std::string_view name, std::string_view value) {
    key(name);
    append_repaired(members_, value);
    return *this;
}

JsonObject& JsonObject::number(std::string_view name, std::uint64_t value) {
    key(name);
    members_ += std::to_string(value);
    return *this;
}

JsonObject& JsonObject::flag(std::string_view name, bool value) {
    key(name);
    members_ += value ? "true" : "false";
    return *this;
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
    key(name);
    members_ += json;
    return *this;
}

JsonObject& JsonObject::object(std::string_view name, const JsonObject& inner) {
    key(name);
    members_.append("{").append(inner.members_).append("}");
    return *this;
}

JsonObject& JsonObject::texts(std::string_view name, const std::vector<std::string>& values) {
    key(name);
    members_ += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i > 0)
            members_ += ',';
        append_repaired(members_, values[i]);
    }
    members_ += ']';
    return *this;
}

ToolResult ToolResult::failure(std::string_view code, std::string error, std::string user_feedback) {
    ToolResult result;
    result.success = false;
    result.error_code = code;
    result.error = std::move(error);
    result.user_feedback = std::move(user_feedback);
    return result;
}

std::string ToolResult::json(std::string_view context) const {
    JsonObject out;
    out.reserve(data.members().size() + details.members().size() + context.size() + k_usual_rest_bytes);
    out.flag("success", success);
    if (success)
        out.object("data", data);
    out.text("userFeedback", user_feedback).flag("previewRefreshNeeded", !changed_files.empty());
    if (!success) {
        JsonObject technical;
        technical.text("error", error).text("errorCode", error_code);
        std::string members = technical.members();
        if (!details.is_empty())
            members += "," + details.members();
        out.raw("technicalDetails", "{" + members + "}");
    }
    if (!changed_files.empty())
        out.texts("changedFiles", changed_files);
    if (!warnings.empty())
        out.texts("warnings", warnings);
    if (!suggestions.empty())
        out.texts("suggestions", suggestions);
    if (!context.empty())
        out.raw("context", context);
    return std::move(out).close();
}

}  // namespace atl::guest
