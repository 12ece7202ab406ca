// The JSON Schema (draft 7) of a tool's arguments, compiled once a run. `pattern` and `patternProperties` run
// in RE2, in time linear in the text. A local `$ref` is inlined at compilation, or followed during a check if
// it leads back to where it is; no other is taken. `format` and keywords that draft 7 lacks are not checked.
// Hostile input, both the schema and the arguments: memory and time of each are bounded. Not here: who may
// call the tool (tool_set.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "core/base/error.hpp"

namespace atl::execution {

inline constexpr std::size_t k_schema_limit_bytes = 64 * 1024;
inline constexpr std::size_t k_schema_depth = 32;
// With each $ref replaced by what it names: schemas, and bytes of names and values (8 more for each).
inline constexpr std::size_t k_schema_expanded_nodes = 10'000;
inline constexpr std::size_t k_schema_expanded_bytes = 1024 * 1024;
inline constexpr std::size_t k_schema_recursive = 4;                // schemas that a $ref within them names
inline constexpr std::size_t k_schema_patterns = 64;                // different ones
inline constexpr std::size_t k_pattern_memory_bytes = 1024 * 1024;  // of each, RE2's max_mem
inline constexpr int k_pattern_instructions = 4'000;                // of each, as RE2 counts them
inline constexpr std::size_t k_arguments_depth = 128;
inline constexpr std::size_t k_argument_names_bytes = 8 * 1024;  // of all objects around a value
// An array where uniqueItems is used: its cost is quadratic.
inline constexpr std::size_t k_unique_items = 2'000;
// Of one check: keywords evaluated (a long enum, text against a pattern and uniqueItems count more), and how
// many of them within each other, which bounds the stack.
inline constexpr std::size_t k_check_steps = 100'000;
inline constexpr std::size_t k_check_steps_per_byte = 4;  // of the arguments, added
inline constexpr std::size_t k_check_depth = 512;

class ArgumentSchema {
  public:
    /// Errors: invalid_field, with the place in the schema (JSON pointer) in the sentence, at most 512 bytes.
    static base::Result<ArgumentSchema> compile(std::string_view schema_json);

    ArgumentSchema(ArgumentSchema&&) noexcept;
    ArgumentSchema& operator=(ArgumentSchema&&) noexcept;
    ~ArgumentSchema();

    /// `args_json` is the array of a call's arguments. A schema whose own `type` is `array` is for the array
    /// itself; one with another `type`, `properties` or `required` for its only element; any other, `{}` for
    /// one, for each element. No argument counts as `{}`. Errors: invalid_field, which names `tool` and the
    /// place, at most 512 bytes.
    base::Result<void> check(std::string_view tool, std::string_view args_json) const;

    std::size_t expanded_bytes() const noexcept;  // at most k_schema_expanded_bytes
    std::size_t patterns() const noexcept;        // at most k_schema_patterns

  private:
    struct Compiled;
    explicit ArgumentSchema(std::unique_ptr<Compiled> compiled);
    std::unique_ptr<Compiled> compiled_;
};

}  // namespace atl::execution
