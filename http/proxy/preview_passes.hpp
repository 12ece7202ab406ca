// Passes: what a browser keeps of a token of scope `preview`. The token comes once, in the address
// k_enter_path, and is exchanged for a cookie of that host name alone, which is good as long as the token.
// The cookie is its own record, signed with the key of tokens:
//     EXPIRY.SIGNATURE     of the sandbox, the host name with its port, and EXPIRY (seconds since 1970)
// Nothing is stored. Not here: whether a preview asks for a pass (preview_service.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// Paths below it are the server's own at every preview, and never go inside.
inline constexpr std::string_view k_own_paths = "/.atoll/";
/// `?token=TOKEN`, perhaps `&to=PATH`.
inline constexpr std::string_view k_enter_path = "/.atoll/enter";

/// Cookies of this server have names that begin so: __Host- keeps them to one host name (RFC 6265bis section
/// 4.1.3.2). None goes inside, none comes from there.
inline constexpr std::string_view k_own_cookies = "__Host-atoll-preview";

class PreviewPasses {
  public:
    /// Both must outlive it.
    PreviewPasses(const StreamTokens& tokens, const base::Clock& clock) : tokens_(tokens), clock_(clock) {}

    /// When the pass ends that the request has for the sandbox at this host name; none: it has no good one.
    std::optional<base::SteadyTime> find(const Request& request, std::string_view sandbox_id) const;
    /// The answer to a request of k_enter_path: a redirect with the pass, to `to` or the first page. Errors:
    /// method_not_allowed; invalid_request, also for an upgrade; preview_private for a token that is no good
    /// one here.
    base::Result<Response> enter(const Request& request, std::string_view sandbox_id) const;

  private:
    const StreamTokens& tokens_;
    const base::Clock& clock_;
};

/// True if a browser stays at its origin when it is sent to `path`.
bool is_local_path(std::string_view path) noexcept;

}  // namespace atl::http
