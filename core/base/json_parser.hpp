// The one parser of JSON that strangers wrote: nesting has a bound, UTF-8 is checked, a name that comes twice
// in an object is refused, and so is an integer that would become another number. Boost.JSON reads the text
// into values of nlohmann: a long string takes a fiftieth of the time of nlohmann's lexer. Many small values
// take up to 35 ms a MiB; a caller with less time has a budget. Not here: which members there may be
// (http/wire/json_reader.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/limits.hpp"

namespace atl::base {

/// Parses a JSON value. Errors: invalid_utf8, invalid_json (also for nesting beyond k_max_json_depth and for
/// a name that comes twice in an object).
Result<nlohmann::json> parse_json(std::string_view text);

/// Bounds on the values of a text, and on the members of each of its objects. By default none.
struct JsonBudget {
    std::size_t nodes = SIZE_MAX;
    std::size_t members = SIZE_MAX;
    std::size_t used = 0;  // values that were counted, those of a text that is refused, too
};
/// The budget of what the loop parses for a client.
inline constexpr JsonBudget k_client_json{k_max_json_nodes, k_max_json_members};

/// The same within `budget`: the parser stops at the first value or member beyond it. Errors: also
/// body_too_large.
Result<nlohmann::json> parse_json(std::string_view text, JsonBudget& budget);

}  // namespace atl::base
