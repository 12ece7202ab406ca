// The body of an exec: JSON to what runs and what of its output is wanted. Checks the form and the
// environment; whether the program and its directory are there, the guest says.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/shares.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/sandbox/operations.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

inline constexpr IntRange k_exec_timeout_range{1, base::k_max_exec_timeout.count()};
inline constexpr IntRange k_exec_output_range{0, base::k_max_exec_output_bytes};

struct ExecForm {
    sandbox::RunSpec spec;
    std::string input;        // for stdin, where the spec has a pipe
    base::Share input_share;  // of the budget `exec`, as long as `input` is kept
    std::size_t max_output_bytes = base::k_default_exec_output_bytes;  // of stdout, and of stderr
};

/// A text that is not empty and has no NUL character. Errors, kept by `reader`: invalid_field.
std::optional<std::string> read_plain(ObjectReader& reader, std::string_view name, std::size_t limit_bytes);

/// Reads the members that say what runs: `command` or `argv`, `cwd`, `env`. Errors, kept by `reader`:
/// invalid_field, invalid_env.
void read_program(ObjectReader& reader, sandbox::RunSpec& spec);

/// Errors: invalid_field, unknown_field, invalid_env.
base::Result<ExecForm> read_exec_form(const Json& body);

}  // namespace atl::http
