// Examples of requests and responses, recorded from a run of the real server by
// tests/integration/examples_test.cpp, which fails if they are no longer true. The file examples.json becomes
// part of the library when it is built.
#pragma once

#include <string_view>

namespace atl::http {

/// `{operations: {operationId: {parameters?, request?, responses: {status: {media type: body}}}}, problems:
/// {code: body}}`, as JSON.
std::string_view examples_text() noexcept;

/// Stands for every id of an example that the run does not have.
inline constexpr std::string_view k_example_id = "7f3kq0x9d2m5v8w1c4zr";

}  // namespace atl::http
