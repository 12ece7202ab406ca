// The one parser of JSON that strangers wrote: nesting has a bound, UTF-8 is checked, a name that comes twice
// in an object is refused. Recursion never follows the input's nesting. Linear in the text, up to 50 ms a
// MiB. Not here: which members there may be (http/wire/json_reader.hpp).
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.hpp"

namespace atl::base {

/// One JSON value. Errors: invalid_utf8, invalid_json (also for nesting beyond k_max_json_depth and for a
/// name that comes twice in an object).
Result<nlohmann::json> parse_json(std::string_view text);

}  // namespace atl::base
