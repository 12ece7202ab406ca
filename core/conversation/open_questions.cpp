#include "core/conversation/open_questions.hpp"

#include <nlohmann/json.hpp>

#include "core/plain/operation_limits.hpp"

namespace atl::conversation {
namespace {

std::string question_id(std::string_view json) {
    const nlohmann::json event = nlohmann::json::parse(json, nullptr, false);
    const auto data = event.is_object() ? event.find("data") : event.end();
    if (data == event.end() || !data->is_object())
        return {};
    const auto id = data->find("id");
    return id != data->end() && id->is_string() ? id->get<std::string>() : std::string();
}

}  // namespace

void OpenQuestions::see(EventType type, std::string_view json) {
    const std::string id = question_id(json);
    if (id.empty() || id.size() > base::k_max_permission_id_bytes)
        return;
    const bool is_of_host = type == EventType::egress_request || type == EventType::egress_resolved;
    std::vector<std::string>& open = is_of_host ? hosts : permissions;
    std::erase(open, id);
    const bool is_asked = type == EventType::egress_request || type == EventType::permission_request;
    if (is_asked && open.size() < base::k_max_open_permissions)
        open.push_back(id);
}

}  // namespace atl::conversation
