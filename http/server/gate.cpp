#include "http/server/gate.hpp"

#include <algorithm>
#include <set>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/nearest.hpp"
#include "core/plain/utf8.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/server/cors.hpp"
#include "http/server/problem.hpp"
#include "http/server/server_options.hpp"
#include "http/websocket/closing.hpp"
#include "http/websocket/handshake.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr unsigned k_too_many = 429;
constexpr std::string_view k_after_parameter = "after";
constexpr const char* k_broken_query = "The query is not percent-encoded UTF-8.";

/// The token of a request that has no key.
std::optional<std::string> find_token(const Request& request) {
    // A request with a key needs a good one, whatever else it has.
    if (!credential(request).empty())
        return std::nullopt;
    const auto items = parse_query(request.query);
    const std::string* const token = items ? find_item(*items, k_token_parameter.name) : nullptr;
    return token == nullptr ? std::nullopt : std::optional<std::string>(*token);
}

/// The number that the client gave as `after`, without an epoch; 0: none. The log is not looked at.
std::uint64_t after_in(const Request& request) {
    const auto items = parse_query(request.query);
    const std::string* const text = items ? find_item(*items, k_after_parameter) : nullptr;
    const auto after =
        text == nullptr ? std::nullopt : parse_decimal(std::string_view(*text).substr(0, text->find('-')));
    return after && *after <= INT64_MAX ? *after : 0;
}

Error wrong_scope(Scope scope, Scope needed) {
    return Error(Errc::token_scope, "The token is of the scope `" + std::string(scope_name(scope)) +
                                        "`; this route needs one of `" + std::string(scope_name(needed)) +
                                        "`.");
}

/// True if the request opens a WebSocket that there is: its client would read a close frame.
bool opens_websocket(const Router::Match& match, const Request& request) {
    return match.route != nullptr && match.route->opens == Opens::websocket &&
           check_handshake(request).has_value();
}

std::vector<std::string> names_of(const Route& route) {
    std::vector<std::string> names;
    for (const QueryParameter& parameter : route.query)
        names.emplace_back(parameter.name);
    return names;
}

}  // namespace

Gate::Gate(GateSettings settings, Router router, const Authenticator& authenticator)
    : settings_(std::move(settings)),
      router_(std::move(router)),
      authenticator_(authenticator),
      limits_(settings_.limits) {}

base::Result<CountLimiter::Lease> Gate::connect(const PeerAddress& peer) {
    return limits_.connect(peer, settings_.trusted_proxies);
}

Decision Gate::admit(RequestContext& context, const Arrival& arrival) {
    context.client = client_of(context.request, context.client.address, settings_.trusted_proxies);
    context.limits = &limits_;
    context.limited = limits_.subject_of(context.client);
    Refusal refusal;
    const auto route = find_route(context, arrival, refusal);
    Decision decision;
    if (route.has_value()) {
        decision.handler = &(*route)->handler;
        if ((*route)->guard)
            decision.guard = &(*route)->guard;
        decision.body = (*route)->body;
        decision.max_body_bytes = settings_.max_body_bytes;
        return decision;
    }
    if (refusal.by_close_frame) {
        decision.refusal = close_socket(context, arrival, route.error());
        return decision;
    }
    decision.refusal = refuse(context, route.error());
    if (!refusal.allow.empty())
        decision.refusal.headers.emplace_back("Allow", std::move(refusal.allow));
    return decision;
}

base::Result<const Route*> Gate::find_route(RequestContext& context, const Arrival& arrival,
                                            Refusal& refusal) {
    const Request& request = context.request;
    if (auto limit = limits_.request(context.limited, arrival.at); limit.has_error())
        return limit.error();
    if (auto site = admit_site(context, arrival); site.has_error())
        return refuse_site(request, site.error(), refusal);
    if (is_server_options(request))
        return &server_options_route();
    auto match = router_.match(request.method, request.path);
    if (match.route == nullptr && is_preflight(request, settings_.allowed_origins))
        return &preflight_route();
    if (match.route == nullptr || match.route->auth != Auth::open) {
        if (auto known = admit_principal(context, arrival, match, refusal); known.has_error())
            return known.error();
    }
    if (match.route == nullptr) {
        refusal.allow = std::move(match.allow);
        if (refusal.allow.empty())
            return Error(Errc::not_found, "There is no such route; /docs and /openapi.json list them all.");
        return Error(Errc::method_not_allowed, "This route has other methods: " + refusal.allow + '.');
    }
    if (match.malformed)
        return Error(Errc::invalid_request, "The path is not percent-encoded UTF-8, or holds a %00.");
    context.params = std::move(match.params);
    if (auto query = admit_query(*match.route, context); query.has_error())
        return query.error();
    return match.route;
}

// Host as it came and as a proxy says that it was: a page that made its name mean this server could set the
// second one.
base::Result<void> Gate::admit_site(const RequestContext& context, const Arrival& arrival) const {
    const auto& allowed_hosts = settings_.allowed_hosts;
    Site site = site_of(context.request, context.client);
    // Where TLS ends here, a page that came without it may be of anyone on the way.
    if (site.scheme.empty() && arrival.secure)
        site.scheme = "https";
    if (auto host = check_host(context.request.authority, arrival.reach, allowed_hosts); host.has_error())
        return host;
    if (!context.client.host.empty()) {
        if (auto host = check_host(site.authority, arrival.reach, allowed_hosts); host.has_error())
            return host;
    }
    return check_origin(context.request, site, settings_.allowed_origins);
}

// A page of another origin may read why it is refused, and no more: neither its credentials nor what it asks
// for are looked at. A page that made its name mean this server can read nothing.
base::Result<const Route*> Gate::refuse_site(const Request& request, const Error& error,
                                             Refusal& refusal) const {
    if (error.code() == Errc::origin_not_allowed) {
        if (is_refused_preflight(request))
            return &refused_preflight_route();
        refusal.by_close_frame = opens_websocket(router_.match(request.method, request.path), request);
    }
    return error;
}

// A good key always works, whatever came from its address before: else anyone who shares the address could
// lock its owner out. Failed logins count against the address; above the limit the answer is 429.
base::Result<void> Gate::admit_principal(RequestContext& context, const Arrival& arrival,
                                         const Router::Match& match, Refusal& refusal) {
    const Request& request = context.request;
    const auto token = find_token(request);
    auto principal = identify(match, request, token ? &*token : nullptr);
    if (principal.has_value()) {
        context.principal = std::move(*principal);
        context.limited = limits_.subject_of(context.limited, context.principal);
        return limits_.key_request(context.limited, arrival.at);
    }
    // A page may send an expired token by mistake, and nobody finds one by guessing; a WebSocket costs more
    // than an answer.
    const bool opens_socket = token && opens_websocket(match, request);
    const Errc code = principal.error().code();
    // No credentials: not a failed login.
    const bool is_guess = token ? code == Errc::invalid_token : !credential(request).empty();
    if (is_guess || opens_socket) {
        if (auto limit = limits_.failed_login(context.limited, arrival.at); limit.has_error())
            return limit;
    }
    refusal.by_close_frame = opens_socket;
    return principal.error();
}

base::Result<Principal> Gate::identify(const Router::Match& match, const Request& request,
                                       const std::string* token) const {
    if (token == nullptr) {
        auto known = authenticator_.authenticate(request);
        if (known.has_error() && scope_in(credential(request)))
            return Error(Errc::invalid_key,
                         "This is a token, not a key: send it as `?token=` to a route that takes tokens.");
        return known;
    }
    const auto id = std::find_if(match.params.begin(), match.params.end(),
                                 [](const auto& item) { return item.first == "id"; });
    // A path that has no id is that of another thing.
    auto principal = authenticator_.authenticate_token(*token, id == match.params.end() ? "" : id->second);
    if (principal.has_error() && principal.error().code() == Errc::invalid_token && !scope_in(*token))
        return Error(Errc::invalid_token,
                     "This is no token. A key is sent as `Authorization: Bearer KEY`, never in an address, "
                     "where logs keep it.");
    if (match.route == nullptr || match.route->auth != Auth::token_or_key) {
        const bool is_of_this_server =
            principal.has_value() || principal.error().code() == Errc::token_mismatch;
        return is_of_this_server ? Error(Errc::token_scope) : principal.error();
    }
    const Scope needed = match.route->token_scope;
    if (principal.has_value() && !includes(principal->scope, needed))
        return wrong_scope(principal->scope, needed);
    if (principal.has_error() && principal.error().code() == Errc::token_mismatch) {
        // A sandbox's token on a route of conversations is not that of another conversation.
        const auto scope = scope_in(*token);
        if (scope && is_of_sandbox(*scope) != is_of_sandbox(needed))
            return wrong_scope(*scope, needed);
    }
    return principal;
}

// Neither the answer nor its time depends on whether there is such a conversation.
Response Gate::close_socket(const RequestContext& context, const Arrival& arrival, const Error& error) {
    const bool is_of_site = error.code() == Errc::origin_not_allowed;
    const bool is_of_another = error.code() == Errc::token_mismatch || error.code() == Errc::token_scope;
    const auto code = is_of_site || is_of_another ? k_close_forbidden : k_close_token_bad;
    // Any page can ask for these: the line of the request tells of them, within the bound on refusals.
    if (!is_of_site)
        base::LogLine(base::evt::socket_refused)
            .field("req", context.request_id)
            .field("close", static_cast<std::int64_t>(code))
            .field("addr", address_text(context.client.address))
            .info();
    std::string_view detail = "this server did not make the token";
    if (error.code() == Errc::token_expired)
        detail = "get a new token and connect again";
    else if (is_of_another)
        detail = "the token is for another conversation, sandbox or scope";
    else if (is_of_site)
        detail = "the server needs --allowed-origin with this origin";
    const std::string_view word = base::code_name(error.code());
    const std::string reason = close_reason(word, after_in(context.request), detail);
    Response response =
        close_at_handshake(context.request, code, reason, arrival.at + base::k_token_end_grace);
    if (is_of_site)
        response.problem_code = word;
    return response;
}

base::Result<void> Gate::admit_query(const Route& route, RequestContext& context) {
    auto items = parse_query(context.request.query);
    if (!items)
        return Error(Errc::invalid_request, k_broken_query);
    // Sorted: a hostile query has thousands of names, and anyone may send one to an open route.
    std::set<std::string_view> given;
    for (const auto& item : *items) {
        const auto& name = item.first;
        const auto declared = [&](const QueryParameter& parameter) { return declares(parameter, name); };
        const auto parameter = std::find_if(route.query.begin(), route.query.end(), declared);
        const bool is_known = parameter != route.query.end();
        if (!(is_known && parameter->is_bytes) && !base::is_utf8(item.second))
            return Error(Errc::invalid_request, k_broken_query);
        if (is_known && !given.insert(name).second)
            return Error(Errc::invalid_request,
                         "The query parameter `" + base::escaped(name) + "` is given twice.");
        if (!is_known && route.auth != Auth::open)
            return Error(Errc::unknown_field, "There is no query parameter `" + base::escaped(name) +
                                                  "` here" +
                                                  base::did_you_mean(name, names_of(route), "`", ".") +
                                                  base::those_there_are("parameters", names_of(route)));
    }
    context.query = std::move(*items);
    return {};
}

Response Gate::refuse(const RequestContext& context, const Error& error) {
    Response refusal = problem(error, context.request_id);
    if (refusal.status == k_too_many)
        limit_log_.log(error, context.client.address);
    return refusal;
}

Response Gate::refuse_unread(RequestContext& context, const Arrival& arrival, const Error& error) {
    context.client.is_trusted = settings_.trusted_proxies.contains(context.client.address);
    const auto limit = limits_.request(limits_.subject_of(context.client), arrival.at);
    return refuse(context, limit.has_error() ? limit.error() : error);
}

void Gate::complete(const Request& request, Response& response) {
    add_cors(request, settings_.allowed_origins, response);
}

}  // namespace atl::http
