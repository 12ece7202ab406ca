// Bounds of the JSON Schemas of tools (argument_schema.hpp): of a schema, of its check, of the work of both.
#pragma once

#include <cstddef>

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
// A check: keywords evaluated (text against a pattern, and values that are compared, count more), and
// how many of them within each other, which bounds the stack.
inline constexpr std::size_t k_check_steps = 100'000;
inline constexpr std::size_t k_check_steps_per_byte = 4;  // of the arguments, added
inline constexpr std::size_t k_check_depth = 512;
// Values that comparisons (enum, const, uniqueItems) of one check visit, each a step, too; so many bytes of
// text are one more. Counted before the visit. Each takes 0.3 us, on a machine with much other work 0.85 us:
// all of them 20 to 55 ms, for which other users' checks wait.
inline constexpr std::size_t k_check_compared_nodes = 64UL * 1024;
inline constexpr std::size_t k_compared_bytes_a_node = 64;

// The work of compiling a schema, counted by compile_within(); the other bounds allow a third of it.
inline constexpr std::size_t k_compile_work = 8UL * 1024 * 1024;

// Further work that compile_within() and check_within() count.
inline constexpr std::size_t k_compile_work_per_schema = 64;  // in bytes of text, which count one each
inline constexpr std::size_t k_compile_work_per_pattern = 1024;
inline constexpr std::size_t k_small_pattern_memory_bytes = 64 * 1024;  // of each pattern that is compiled so
inline constexpr std::size_t k_bytes_parsed_a_step = 8;

}  // namespace atl::execution
