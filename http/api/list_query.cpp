#include "http/api/list_query.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/log.hpp"
#include "http/api/forms.hpp"
#include "http/api/ownership.hpp"

namespace atl::http {

using base::Errc;
using base::Error;
using base::Result;
using conversation::ListFilter;
using conversation::ListOrder;

namespace {

constexpr std::string_view k_metadata_prefix = "metadata.";
constexpr std::string_view k_query_text = R"({"type":"string"})";
constexpr std::string_view k_time = R"({"type":"string","format":"date-time"})";

struct TimeBound {
    std::string_view name;
    std::optional<base::WallTime> ListFilter::*bound;
    std::string_view description;
};
constexpr std::array k_time_bounds{
    TimeBound{"createdAfter", &ListFilter::created_after, "Only those that were created then or later."},
    TimeBound{"createdBefore", &ListFilter::created_before, "Only those that were created before."},
    TimeBound{"activeAfter", &ListFilter::active_after, "Only those whose last activity was then or later."},
    TimeBound{"activeBefore", &ListFilter::active_before, "Only those whose last activity was before."}};

Error refused(std::string_view name, const std::string& rule) {
    return {Errc::invalid_field, "The query parameter `" + base::escaped(name) + "` " + rule};
}

Result<void> read_times(const RequestContext& context, ListFilter& filter) {
    for (const TimeBound& each : k_time_bounds) {
        const std::string* const text = context.query_value(each.name);
        if (text == nullptr)
            continue;
        filter.*each.bound = base::parse_rfc3339(*text);
        if (!(filter.*each.bound))
            return refused(each.name,
                           "must be a time as in RFC 3339, like 2026-01-31T09:05:00Z (a `+` of an "
                           "offset is %2B in a query).");
    }
    return {};
}

Result<void> read_metadata_filter(const RequestContext& context, ListFilter& filter) {
    for (const auto& [name, value] : context.query) {
        if (!name.starts_with(k_metadata_prefix))
            continue;
        const std::string member = name.substr(k_metadata_prefix.size());
        if (member.size() > base::k_max_indexed_bytes || value.size() > base::k_max_indexed_bytes)
            return refused(
                k_metadata_prefix,
                "finds names and values of " + std::to_string(base::k_max_indexed_bytes) + " bytes at most.");
        filter.metadata.push_back({member, value});
    }
    if (filter.metadata.size() > base::k_max_metadata_filters)
        return refused(k_metadata_prefix,
                       "may be given " + std::to_string(base::k_max_metadata_filters) + " times at most.");
    return {};
}

}  // namespace

std::vector<QueryParameter> list_parameters() {
    std::vector<QueryParameter> all = {
        {"status", R"({"$ref":"#/components/schemas/ConversationStatus"})", "Only those of this status."},
        {"userId", k_query_text, "Only those of this user."},
        {"agent", k_query_text, "Only those of this agent."},
        {"sandboxId", k_query_text, "Only the one that has this sandbox."},
        {k_metadata_prefix, R"({"type":"object","patternProperties":{"^metadata\\.":{"type":"string"}}})",
         "`metadata.KEY=VALUE`: only those whose metadata has this member at its top level, as a string, an "
         "integer or a boolean. Several must all be there.",
         true}};
    for (const TimeBound& each : k_time_bounds)
        all.push_back({each.name, k_time, each.description});
    all.push_back({"limit", R"({"type":"integer","minimum":1,"maximum":10000,"default":100})",
                   "Items in a page, which may have fewer, or none, and still a `next`."});
    all.push_back({"cursor", k_query_text, "`next` of the page before, of the same list."});
    all.push_back({"order", R"({"enum":["oldest","newest"],"default":"newest"})",
                   "Which come first, by when they were created."});
    return all;
}

Result<conversation::ListQuery> read_list_query(const RequestContext& context) {
    conversation::ListQuery query;
    const auto limit = context.query_integer("limit", k_page_range);
    if (limit.has_error())
        return limit.error();
    query.limit = limit->value_or(base::k_default_page_items);
    ListFilter& filter = query.filter;
    if (const std::string* const status = context.query_value("status")) {
        filter.status = conversation::parse_status(*status);
        if (!filter.status)
            return refused("status", "must be `starting`, `active`, `paused`, `ended` or `error`.");
    }
    const auto take = [&context](std::string_view name, std::optional<std::string>& into) {
        if (const std::string* const value = context.query_value(name))
            into = *value;
    };
    take("userId", filter.user_id);
    take("agent", filter.agent);
    take("sandboxId", filter.sandbox_id);
    if (auto claimed = claim_user(context.principal, filter.user_id); claimed.has_error())
        return claimed.error();
    if (auto read = read_metadata_filter(context, filter); read.has_error())
        return read.error();
    if (auto read = read_times(context, filter); read.has_error())
        return read.error();
    if (const std::string* const cursor = context.query_value("cursor"))
        query.cursor = *cursor;
    query.order = ListOrder::newest_first;
    if (const std::string* const order = context.query_value("order")) {
        if (*order != "oldest" && *order != "newest")
            return refused("order", "must be oldest or newest.");
        if (*order == "oldest")
            query.order = ListOrder::oldest_first;
    }
    return query;
}

}  // namespace atl::http
