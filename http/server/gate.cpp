#include "http/server/gate.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "http/server/cors.hpp"
#include "http/server/problem.hpp"
#include "http/server/server_options.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr unsigned k_too_many = 429;

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
    std::string allow;
    const auto route = find_route(context, arrival, allow);
    Decision decision;
    if (route.has_value()) {
        decision.handler = &(*route)->handler;
        if ((*route)->guard)
            decision.guard = &(*route)->guard;
        decision.body = (*route)->body;
        decision.max_body_bytes = settings_.max_body_bytes;
        return decision;
    }
    decision.refusal = refuse(context, route.error());
    if (!allow.empty())
        decision.refusal.headers.emplace_back("Allow", std::move(allow));
    return decision;
}

base::Result<const Route*> Gate::find_route(RequestContext& context, const Arrival& arrival,
                                            std::string& allow) {
    const Request& request = context.request;
    if (auto limit = limits_.request(context.limited, arrival.at); limit.has_error())
        return limit.error();
    if (auto site = admit_site(context, arrival); site.has_error())
        return site.error();
    if (is_server_options(request))
        return &server_options_route();
    auto match = router_.match(request.method, request.path);
    if (match.route == nullptr && is_preflight(request, settings_.allowed_origins))
        return &preflight_route();
    if (match.route == nullptr || match.route->auth != Auth::open) {
        if (auto known = admit_principal(context, arrival, match); known.has_error())
            return known.error();
    }
    if (match.route == nullptr) {
        allow = std::move(match.allow);
        if (allow.empty())
            return Error(Errc::not_found, "There is no such route; /openapi.json lists them all.");
        return Error(Errc::method_not_allowed, "This route has other methods: " + allow + '.');
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

// A good key always works, whatever came from its address before: else anyone who shares the address could
// lock its owner out. What is wrong costs its address, and says no more than that once it is too much.
base::Result<void> Gate::admit_principal(RequestContext& context, const Arrival& arrival,
                                         const Router::Match& match) {
    auto principal = identify(match, context.request);
    if (principal.has_value()) {
        context.principal = std::move(*principal);
        context.limited = limits_.subject_of(context.limited, context.principal);
        return limits_.key_request(context.limited, arrival.at);
    }
    // No credentials: not a failed login.
    const bool takes_token = match.route != nullptr && match.route->auth == Auth::token_or_key;
    const bool tried =
        !credential(context.request).empty() || (takes_token && !context.request.query.empty());
    if (tried && principal.error().code() == Errc::unauthorized) {
        if (auto limit = limits_.failed_login(context.limited, arrival.at); limit.has_error())
            return limit;
    }
    return principal.error();
}

base::Result<Principal> Gate::identify(const Router::Match& match, const Request& request) const {
    // A request with a key needs a good one, whatever else it has.
    if (match.route == nullptr || match.route->auth != Auth::token_or_key || !credential(request).empty())
        return authenticator_.authenticate(request);
    const auto named = [](std::string_view name) {
        return [name](const auto& item) { return item.first == name; };
    };
    const auto items = parse_query(request.query);
    const auto id = std::find_if(match.params.begin(), match.params.end(), named("id"));
    if (!items || id == match.params.end())
        return Error(Errc::unauthorized);
    const auto token = std::find_if(items->begin(), items->end(), named(k_token_parameter.name));
    if (token == items->end())
        return Error(Errc::unauthorized);
    return authenticator_.authenticate_token(token->second, id->second);
}

base::Result<void> Gate::admit_query(const Route& route, RequestContext& context) {
    auto items = parse_query(context.request.query);
    if (!items)
        return Error(Errc::invalid_request, "The query is not percent-encoded UTF-8.");
    for (auto item = items->begin(); item != items->end(); ++item) {
        const auto& name = item->first;
        const auto same_name = [&](const auto& other) { return other.first == name; };
        if (std::any_of(items->begin(), item, same_name))
            return Error(Errc::invalid_request,
                         "The query parameter `" + base::escaped(name) + "` is given twice.");
        const auto declared = [&](const QueryParameter& parameter) { return parameter.name == name; };
        if (std::none_of(route.query.begin(), route.query.end(), declared) && route.auth != Auth::open)
            return Error(Errc::unknown_field,
                         "There is no query parameter `" + base::escaped(name) + "` here.");
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
