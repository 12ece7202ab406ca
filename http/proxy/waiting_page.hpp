// The pages that a browser shows where a preview cannot be shown: while nothing answers, and for want of a
// token.
#pragma once

#include <string_view>

#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// The field that tells the page, and nobody else, that it still waits.
inline constexpr std::string_view k_waiting_field = "X-Atoll-Preview";

/// True for a request by which a browser goes to a page: what it gets will be shown.
bool is_navigation(const Request& request);

/// Asks again by HEAD, which wakes nobody, after 1, 2, 4 … 30 s, stops after five minutes, and is replaced by
/// what answers then. Nothing but its own script runs in it, and nothing but its own address is asked.
Response waiting_page(base::Errc why);

/// Says that the preview is private, and how to come by it.
Response private_page();

}  // namespace atl::http
