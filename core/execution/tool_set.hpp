// The tools that a program may call: their names and policies, and the schema of each, compiled where that
// takes little work. Immutable. Pure. Not here: who answers a call; checks that take more work than the loop
// has time for (offloaded_checks.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "core/execution/argument_schema.hpp"

namespace atl::execution {

inline constexpr std::size_t k_tools = 128;
inline constexpr std::size_t k_tool_name_bytes = 64;
inline constexpr std::size_t k_tool_description_bytes = 4096;
inline constexpr std::size_t k_tools_schema_bytes = 4 * 1024 * 1024;  // expanded_bytes of all schemas
inline constexpr std::size_t k_tools_patterns = 256;                  // of all schemas
// The most work of make(), as compile_within() counts it: 0.7 ms for 32 usual tools, up to 1.8 ms.
inline constexpr std::size_t k_tools_small_work = 32 * 1024;

/// In the order of their strength: the greater one wins.
enum class Policy : std::uint8_t { allow, ask, deny };

inline Policy stronger(Policy a, Policy b) noexcept {
    return a < b ? b : a;
}
/// Error: invalid_field.
base::Result<Policy> parse_policy(std::string_view word);
std::string_view policy_name(Policy policy) noexcept;

struct ToolSpec {
    std::string name;
    std::string description;
    std::string schema_json;  // inputSchema; empty: anything
    Policy policy = Policy::allow;
};

/// True if a property of `codemode` can have this name: [A-Za-z_][A-Za-z0-9_]*, at most 64 bytes, and none
/// that has a meaning of its own in the language (then, toJSON, constructor, ...) or for the runner (two
/// underscores at the beginning).
bool is_tool_name(std::string_view name) noexcept;

class ToolSet {
  public:
    struct Verdict {
        enum class Arguments : std::uint8_t { fit, unchecked };
        Policy policy = Policy::allow;
        Arguments arguments = Arguments::fit;  // unchecked: that takes more work than it may be here
    };

    /// Compiles the schemas, unless that takes more work than the loop has time for. Errors: invalid_field,
    /// which names the tool: a name twice or that no property can have, a bad schema; or schemas that are too
    /// large together.
    static base::Result<ToolSet> make(std::span<const ToolSpec> specs);
    /// False: no schema was compiled, and none of them is known to be good (OffloadedChecks::verify()).
    bool is_compiled() const noexcept { return compiled_; }
    /// Succeeds if make() would take them with any amount of work; not for the loop. Gives their warnings().
    /// Errors: those of make().
    static base::Result<std::string> verify(std::span<const ToolSpec> specs);
    /// The keywords that are not checked, as the text of a JSON array of {tool, keyword, why}; empty if all
    /// are checked or no schema was compiled.
    const std::string& warnings() const noexcept { return warnings_; }
    void set_warnings(std::string json) { warnings_ = std::move(json); }

    /// Decides on a call with these arguments (a JSON array) within `steps`, and subtracts those that it
    /// used. Errors: invalid_field: no such tool (it lists those that exist), or arguments that do not fit.
    /// The arguments of a denied tool are not looked at.
    base::Result<Verdict> check_call(std::string_view name, std::string_view args_json,
                                     std::size_t& steps) const;
    /// The text of its inputSchema. Precondition: there is such a tool.
    const std::string& schema_of(std::string_view name) const;
    std::size_t size() const noexcept { return tools_.size(); }

  private:
    struct Tool {
        Policy policy;
        std::string schema_json;
        std::optional<ArgumentSchema> schema;  // where compiled_
    };
    std::map<std::string, Tool, std::less<>> tools_;
    std::string warnings_;
    bool compiled_ = true;
};

}  // namespace atl::execution
