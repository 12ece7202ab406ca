// Errors over HTTP: the one table from Errc to status, and problem+json bodies (RFC 9457).
#pragma once

#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

inline constexpr std::string_view k_problem_type = "application/problem+json";

/// The page of the server that has a section for each code.
inline constexpr std::string_view k_errors_page = "/docs";

/// The status that tells `code`. Every entry of Errc has one.
unsigned status_of(base::Errc code) noexcept;

/// The meaning of errors of this code, in one sentence that begins the code's section of docs/errors.md.
std::string_view meaning_of(base::Errc code) noexcept;

/// The error's sentence, or the usual one of its code.
std::string_view error_detail(const base::Error& error) noexcept;

/// The JSON pointer of the member of the body that is at fault; empty: none is, or it is not known.
std::string_view error_pointer(const base::Error& error) noexcept;

/// The `type` of a problem: a relative reference to the code's section of the page. As stable as `code`.
/// "about:blank" where `errors_page` is empty, as at an address that has no such page (RFC 9457,
/// section 4.2.1).
std::string problem_type(base::Errc code, std::string_view errors_page = k_errors_page);

/// `{type, title, status, detail, code, pointer?, requestId}` and the error's own members, with Retry-After
/// and WWW-Authenticate where the error has them. An error `unauthorized` with a sentence of its own says
/// that the credentials were wrong, one without that there were none.
Response problem(const base::Error& error, std::string_view request_id,
                 std::string_view errors_page = k_errors_page);

}  // namespace atl::http
