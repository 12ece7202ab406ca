#include "core/conversation/metadata.hpp"

#include <nlohmann/json.hpp>

#include "core/base/limits.hpp"

namespace atl::conversation {

using Json = nlohmann::json;

base::Result<std::string> merge_metadata(const std::string& metadata, const std::string& patch) {
    constexpr auto k_no_exceptions = false;
    Json merged = Json::parse(metadata, nullptr, k_no_exceptions);
    if (!merged.is_object())
        merged = Json::object();
    merged.merge_patch(Json::parse(patch, nullptr, k_no_exceptions));
    std::string text = merged.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > base::k_max_metadata_bytes)
        return base::Error(base::Errc::invalid_field, "The field `metadata` would have more than " +
                                                          std::to_string(base::k_max_metadata_bytes) +
                                                          " bytes as JSON after this patch.");
    return text;
}

}  // namespace atl::conversation
