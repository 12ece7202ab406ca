// The tools as TypeScript declarations, one text for the prompt of a model.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/execution/tool_set.hpp"

namespace atl::execution {

inline constexpr std::size_t k_declarations_bytes = 256 * 1024;

/// `declare const codemode: {...}`, behind a `type` for each schema that a $ref names. Descriptions, or
/// else titles, examples, defaults and what no type says are comments; long values are cut. What has no form
/// in TypeScript is `unknown`. At most k_declarations_bytes: the tools beyond it are left out, and a comment
/// says how many.
std::string typescript_declarations(std::span<const ToolSpec> tools);

}  // namespace atl::execution
