// The text of JSON values. Values that are made member by member are written straight as text instead
// (json_writer.hpp).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace atl::base {

/// The text of `value`, without space between its tokens, as its dump() gives it; long strings take a
/// fraction of the time. Precondition: its strings are UTF-8, as those of parse_json() are, and it nests no
/// deeper than parse_json() lets it.
std::string json_dump(const nlohmann::json& value);

}  // namespace atl::base
