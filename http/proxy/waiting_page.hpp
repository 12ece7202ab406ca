// The pages that a browser shows where a preview cannot be shown: for now, or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// The field that tells the page, and nobody else, that still nothing answers, with the error's code: it has
/// not is_broken_answer(), since a dev server that breaks HEAD may answer GET.
inline constexpr std::string_view k_waiting_field = "X-Atoll-Preview";

/// True for a request by which a browser goes to a page: what it gets will be shown.
bool is_navigation(const Request& request);

/// True if asking again may help although nothing changes but the time: 502, 503, 504, and 429 for the
/// share of the preview's owner.
bool may_pass(base::Errc why) noexcept;

/// True if the dev server has got the request, and broke off its answer or gave none in time.
bool is_broken_answer(base::Errc why) noexcept;

/// Precondition: may_pass(). Names the `port`, where that is known and nothing listens there. Asks again each
/// second by HEAD, which wakes nobody, while it is visible, and is loaded again once HEAD is answered, or is
/// not within 10 s, or tells that a paused conversation runs. Loads that follow one another come after 1, 2,
/// 4 … 30 s, for five minutes in all; where a browser lets it keep nothing, it loads itself once. Where a
/// reload has brought the page of a broken answer, it asks nothing and says how to try again: so no page goes
/// on reloading by itself. Nothing but its own script runs in it, and nothing but its own address is asked.
Response waiting_page(base::Errc why, std::optional<std::uint16_t> port = {});

/// True if there is a closed_page() that says why.
bool is_closed(base::Errc why) noexcept;

/// Precondition: is_closed(). Says that the preview is private, has ended, or is none. Asks nothing.
Response closed_page(base::Errc why);

}  // namespace atl::http
