// The JSON Schema (draft 7) of a tool's arguments, compiled once a run. `pattern` and `patternProperties` run
// in RE2, in time linear in the text. A local `$ref` is inlined at compilation, or followed during a check if
// it leads back to where it is; no other is taken. `format` is not checked. Later drafts' `prefixItems`,
// `dependentRequired` and `dependentSchemas`, and OpenAPI's `nullable`, are; their others are warnings.
// Hostile input, both the schema and the arguments: memory and time of each are bounded. Not here: who may
// call the tool (tool_set.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/execution/schema_limits.hpp"
#include "core/execution/schema_warning.hpp"

namespace atl::execution {

class ArgumentSchema {
  public:
    /// A keyword that cannot be checked is a warning: a pattern that RE2 cannot run, a $ref that cannot be
    /// followed, a value that the keyword does not take. Size and depth alone refuse a schema.
    /// Errors: invalid_field, with the place in the schema (JSON pointer) in the sentence, at most 512 bytes.
    static base::Result<ArgumentSchema> compile(std::string_view schema_json);

    /// The same within `work`, from which what is used is taken. Nothing: it takes more, and the schema may
    /// be good or bad. For the loop, which has no time for the most that a schema may take: 64 KiB of text
    /// and 64 large patterns.
    static base::Result<std::optional<ArgumentSchema>> compile_within(std::string_view schema_json,
                                                                      std::size_t& work);

    ArgumentSchema(ArgumentSchema&&) noexcept;
    ArgumentSchema& operator=(ArgumentSchema&&) noexcept;
    ~ArgumentSchema();

    /// `args_json` is the array of a call's arguments. A schema whose own `type` is `array` is for the array
    /// itself; one with another `type`, `properties` or `required` for its only element; any other, `{}` for
    /// one, for each element. No argument counts as `{}`. Errors: invalid_field, which names `tool` and the
    /// place, at most 512 bytes.
    base::Result<void> check(std::string_view tool, std::string_view args_json) const;
    enum class Checked : std::uint8_t { fits, takes_more };
    /// The same within `steps`, from which what is used is taken. takes_more: all are used and nothing is
    /// known.
    base::Result<Checked> check_within(std::string_view tool, std::string_view args_json,
                                       std::size_t& steps) const;

    const std::vector<SchemaWarning>& warnings() const noexcept;
    std::size_t expanded_bytes() const noexcept;  // at most k_schema_expanded_bytes
    std::size_t patterns() const noexcept;        // at most k_schema_patterns
    std::size_t memory_bytes() const noexcept;    // about as much

  private:
    struct Compiled;
    static base::Result<std::optional<ArgumentSchema>> compile_with(std::string_view schema_json,
                                                                    std::size_t& work,
                                                                    std::size_t pattern_memory_bytes);
    explicit ArgumentSchema(std::unique_ptr<Compiled> compiled);
    std::unique_ptr<Compiled> compiled_;
};

}  // namespace atl::execution
