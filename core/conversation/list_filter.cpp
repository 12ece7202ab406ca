#include "core/conversation/list_filter.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/base/limits.hpp"

namespace atl::conversation {
namespace {

using Json = nlohmann::json;

bool is_within(base::WallTime at, const std::optional<base::WallTime>& after,
               const std::optional<base::WallTime>& before) {
    return (!after || at >= *after) && (!before || at < *before);
}

/// The text by which lists find a member of metadata; none for a member that lists do not find.
std::optional<std::string> indexed_text(const std::string& name, const Json& value) {
    constexpr auto k_most = std::uint64_t{INT64_MAX};
    const bool is_number =
        value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= k_most);
    if (!value.is_string() && !value.is_boolean() && !is_number)
        return std::nullopt;
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (name.size() > base::k_max_indexed_bytes || text.size() > base::k_max_indexed_bytes)
        return std::nullopt;
    return text;
}

bool has_members(const Json& metadata, const std::vector<MetadataFilter>& wanted) {
    std::size_t found = 0;
    std::size_t indexed = 0;
    for (auto member = metadata.begin(); member != metadata.end(); ++member) {
        const auto text = indexed_text(member.key(), member.value());
        if (!text)
            continue;
        if (++indexed > base::k_max_indexed_members)
            break;
        found += static_cast<std::size_t>(std::ranges::count_if(wanted, [&](const MetadataFilter& one) {
            return one.name == member.key() && one.value == *text;
        }));
    }
    return found == wanted.size();
}

}  // namespace

bool matches_fields(const ListFilter& filter, const Record& record, Status status) {
    return (!filter.status || status == *filter.status) &&
           (!filter.user_id || record.user_id == filter.user_id) &&
           (!filter.agent || record.agent == *filter.agent) &&
           (!filter.sandbox_id || record.sandbox_id == *filter.sandbox_id) &&
           is_within(record.created_at, filter.created_after, filter.created_before) &&
           is_within(record.last_active_at, filter.active_after, filter.active_before);
}

bool matches(const ListFilter& filter, const Record& record, Status status) {
    if (!matches_fields(filter, record, status))
        return false;
    if (filter.metadata.empty())
        return true;
    // The rule is that of the store's index (core/store/schema.cpp).
    if (record.metadata.find("\\u0000") != std::string::npos)
        return false;
    const Json metadata = Json::parse(record.metadata, nullptr, false);
    return metadata.is_object() && has_members(metadata, filter.metadata);
}

}  // namespace atl::conversation
