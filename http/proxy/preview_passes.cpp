#include "http/proxy/preview_passes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "http/proxy/heads.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::size_t k_max_path_bytes = 2048;
// Cookies of one name that are looked at: of which origin one is, a request does not say.
constexpr int k_max_tried = 8;
constexpr unsigned k_see_other = 303;

// A name for each sandbox: in port mode all previews have the host name localhost, and share their cookies.
std::string cookie_name(std::string_view sandbox_id) {
    return fmt::format("{}-{}", k_own_cookies, sandbox_id);
}

// The text that is signed. Neither an id nor a host name has a line break.
std::string pass_claims_of(std::string_view sandbox_id, std::string_view authority, std::string_view expiry) {
    std::string host(authority);
    std::transform(host.begin(), host.end(), host.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return fmt::format("preview-pass.1\n{}\n{}\n{}", sandbox_id, host, expiry);
}

}  // namespace

bool is_local_path(std::string_view path) noexcept {
    return path.starts_with('/') && !path.starts_with("//") && is_visible_ascii(path, k_max_path_bytes) &&
           path.find('\\') == std::string_view::npos && !path.starts_with(k_own_paths);
}

std::optional<base::SteadyTime> PreviewPasses::find(const Request& request,
                                                    std::string_view sandbox_id) const {
    const std::string name = cookie_name(sandbox_id);
    int tried = 0;
    for (const HeaderField& field : request.fields) {
        if (!iequals(field.name, "Cookie"))
            continue;
        for (std::string_view list = field.value; !list.empty();) {
            std::string_view pair = take_element(list, ';');
            if (!pair.starts_with(name) || pair.size() <= name.size() || pair[name.size()] != '=')
                continue;
            if (++tried > k_max_tried)
                return std::nullopt;
            pair.remove_prefix(name.size() + 1);
            const std::string_view expiry = pair.substr(0, pair.find('.'));
            const auto seconds = parse_decimal(expiry);
            if (!seconds || *seconds > INT64_MAX / 1000 || expiry.size() == pair.size() ||
                !tokens_.is_signed(pass_claims_of(sandbox_id, request.authority, expiry),
                                   pair.substr(expiry.size() + 1)))
                continue;
            const auto end = base::WallTime(std::chrono::seconds(static_cast<std::int64_t>(*seconds)));
            if (const auto left = end - clock_.wall_now(); left > base::Millis::zero())
                return clock_.steady_now() + left;
        }
    }
    return std::nullopt;
}

base::Result<Response> PreviewPasses::enter(const Request& request, std::string_view sandbox_id) const {
    if (request.method != Method::get)
        return Error(Errc::method_not_allowed, "This address is opened with GET.");
    // A WebSocket follows no redirect, and keeps no cookie of one.
    if (!wanted_upgrade(request).empty())
        return Error(Errc::invalid_request, "This address is no WebSocket: open it as a page.");
    const auto items = parse_query(request.query);
    const std::string* const token = items ? find_item(*items, "token") : nullptr;
    if (token == nullptr)
        return Error(Errc::invalid_request, "This address takes a token: `?token=`.");
    const std::string* const to = find_item(*items, "to");
    if (to != nullptr && !is_local_path(*to))
        return Error(Errc::invalid_request, "`to` must be a path of this preview, as /a/page?b=c.");
    const auto bearer = tokens_.verify(*token, sandbox_id);
    if (bearer.has_error())
        return Error(Errc::preview_private, bearer.error().code() == Errc::token_expired
                                                ? "The time of this token is over."
                                                : "The token is not one for this preview.");
    if (bearer->scope != Scope::preview)
        return Error(Errc::preview_private, "The token is for another scope than `preview`.");
    const auto left = bearer->expires_at - clock_.steady_now();
    // Rounding gives the token's own end, whatever time passed between two looks at the clock.
    const auto end = std::chrono::round<std::chrono::seconds>(clock_.wall_now() + left);
    const std::string expiry = std::to_string(end.time_since_epoch().count());
    Response response;
    response.status = k_see_other;
    response.content_type = "";
    response.headers.emplace_back("Location", to == nullptr ? "/" : *to);
    response.headers.emplace_back(
        "Set-Cookie",
        fmt::format("{}={}.{}; Path=/; Max-Age={}; HttpOnly; Secure; SameSite=None; Partitioned",
                    cookie_name(sandbox_id), expiry,
                    tokens_.signature_of(pass_claims_of(sandbox_id, request.authority, expiry)),
                    std::chrono::ceil<std::chrono::seconds>(left).count()));
    return response;
}

}  // namespace atl::http
