// Errors over HTTP: the one table from Errc to status, and problem+json bodies (RFC 9457).
#pragma once

#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

inline constexpr std::string_view k_problem_type = "application/problem+json";

/// The status that tells `code`. Every entry of Errc has one.
unsigned status_of(base::Errc code) noexcept;

/// The error's sentence, or the usual one of its code.
std::string_view error_detail(const base::Error& error) noexcept;

/// `{title, status, detail, code, requestId}`, with Retry-After and WWW-Authenticate where the error has
/// them.
Response problem(const base::Error& error, std::string_view request_id);

}  // namespace atl::http
