// JSON that an agent or the guest wrote, read without trust: bounded in depth, and each access is checked.
// Nothing here throws.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace atl::adapter {

using Json = nlohmann::json;

/// The line as an object. Nothing where it is no JSON object in UTF-8, or nested deeper than
/// base::k_max_event_depth. A carriage return at its end is allowed.
std::optional<Json> parse_line(std::string_view line);

/// The members of an object of which this is the outline (guest::JsonOutline): texts, booleans and counts,
/// and the texts in `result`, `response` and `error`. Empty where it has none.
Json parse_outline(std::string_view outline);

/// Null unless `object` is an object with this member.
const Json* member(const Json& object, const char* name);
/// Likewise, and the member must be an object (object_of) or an array (array_of).
const Json* object_of(const Json& object, const char* name);
const Json* array_of(const Json& object, const char* name);
/// Empty unless it is a string; a view of `object`.
std::string_view text_of(const Json& object, const char* name);
/// False unless it is true.
bool flag_of(const Json& object, const char* name);

/// Its text, in one line.
std::string to_text(const Json& value);
/// The beginning of `text` (UTF-8), at most `limit_bytes` of it, cut between characters.
std::string_view head_of(std::string_view text, std::size_t limit_bytes);

}  // namespace atl::adapter
