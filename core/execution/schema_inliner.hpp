// The first half of compiling a schema: what is checked of it, copied, with each $ref replaced by what it
// names and each pattern compiled. Internal to argument_schema. Hostile input: work and size are bounded.
#pragma once

#include <re2/re2.h>

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/error.hpp"
#include "core/execution/schema_warning.hpp"

namespace atl::execution {

using Patterns = std::unordered_map<std::string, std::shared_ptr<const re2::RE2>>;

// Keywords whose comparisons are counted have other names once they are copied; the value of `const` is a
// list of one.
inline constexpr const char* k_inlined_enum = "atoll enum";
inline constexpr const char* k_inlined_const = "atoll const";
inline constexpr const char* k_inlined_unique = "atoll uniqueItems";
// A list of names; an empty one fits no value.
inline constexpr const char* k_inlined_type = "atoll type";

/// invalid_field, at most 512 bytes.
base::Error schema_refusal(const std::string& text);
/// A JSON pointer with one more step.
std::string pointer_step(const std::string& place, const std::string& key);

/// Their names are changed, so that valijson's own checks of them are not made.
inline constexpr std::string_view k_number_keywords[] = {"multipleOf", "maximum", "exclusiveMaximum",
                                                         "minimum", "exclusiveMinimum"};
inline std::string number_rule(std::string_view keyword) {
    return "$" + std::string(keyword);
}

/// The numbers within `value` as they are compared: a tagged bigint or -0 of a program (docs/code-mode.md) is
/// the number that it is, and 5.0 an integer. An integer beyond those of 64 bits with a sign becomes a
/// double: valijson would take it for a negative one.
void plain_numbers(nlohmann::json& value);

struct SchemaRefused {
    base::Error error;
};
struct TooMuchWork : std::runtime_error {
    TooMuchWork() : std::runtime_error("more work than a check of arguments may be") {}
};

struct InlinedSchema {
    nlohmann::json schema;
    std::vector<SchemaWarning> warnings;
    Patterns patterns;
    std::size_t bytes = 0;  // of names and values, 8 more for each
    std::size_t nodes = 0;  // schemas
};

/// Takes what it uses from `work`. Patterns get `pattern_memory_bytes` each, k_pattern_memory_bytes at most.
/// Throws SchemaRefused, and TooMuchWork where `work` or less memory than the most is not enough.
InlinedSchema inline_schema(const nlohmann::json& root, std::size_t& work, std::size_t pattern_memory_bytes);

}  // namespace atl::execution
