#include "http/egress/route_door.hpp"

#include <algorithm>
#include <utility>

#include "core/secrets/limits.hpp"
#include "http/egress/egress_flow.hpp"
#include "http/egress/egress_report.hpp"
#include "http/server/problem.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

/// A list with the upstream alone.
sandbox::EgressSettings list_of_upstream(const egress::Upstream& upstream, const std::string& user_id) {
    return {{upstream.endpoint.text()}, user_id};
}

Error about_route(const Error& error, std::size_t index, const std::string& name) {
    std::string_view why = error.detail();
    constexpr std::string_view k_list = "`network.allow`: ";
    if (why.starts_with(k_list))
        why.remove_prefix(k_list.size());
    return Error(error.code(), "`network.routes`: the route \"" + name + "\" is refused: " + std::string(why))
        .at("/network/routes/" + std::to_string(index));
}

Result<void> check_secrets(const EgressParts& parts, const sandbox::EgressRoute& route,
                           const std::string& user_id, const std::string& host) {
    for (const sandbox::RouteHeader& header : route.headers) {
        if (header.secret.empty())
            continue;
        if (parts.secrets == nullptr)
            return Error(Errc::invalid_field, "this server has no secrets");
        if (auto good = parts.secrets->check(header.secret, user_id, host); good.has_error())
            return good;
    }
    return {};
}

Result<void> check_route(const EgressParts& parts, const sandbox::EgressRoute& route,
                         const std::string& user_id) {
    const auto upstream = egress::parse_upstream(route.upstream);
    if (!upstream)
        return Error(Errc::invalid_field, "its `upstream` is no address");
    const auto settings = list_of_upstream(*upstream, user_id);
    if (auto good = parts.policy.check(settings); good.has_error())
        return good;
    const egress::Host& host = upstream->endpoint.host;
    // A name's addresses are known, and looked at, when it is connected.
    if (upstream->scheme == egress::Scheme::http && host.address &&
        !parts.policy.rules(settings)->is_opened(*host.address, upstream->endpoint.port))
        return Error(Errc::network_not_allowed,
                     "an http: upstream has to be one that the operator opens with --egress-private " +
                         upstream->endpoint.text());
    return check_secrets(parts, route, user_id, host.name);
}

}  // namespace

Result<void> check_routes(const EgressParts& parts, const sandbox::EgressSettings& settings) {
    for (std::size_t i = 0; i < settings.routes.size(); ++i) {
        const sandbox::EgressRoute& route = settings.routes[i];
        if (auto good = check_route(parts, route, settings.user_id); good.has_error())
            return about_route(good.error(), i, route.name);
    }
    return {};
}

RouteDoor::RouteDoor(std::string sandbox_id, EgressParts parts, std::shared_ptr<EgressDoor> door,
                     std::vector<sandbox::EgressRoute> defaults, const sandbox::EgressSettings& settings)
    : sandbox_id_(std::move(sandbox_id)),
      parts_(std::move(parts)),
      door_(std::move(door)),
      defaults_(std::move(defaults)),
      handler_([this](RequestContext& context) { return async_answer(context); }) {
    change(settings);
}

RouteDoor::~RouteDoor() = default;

std::shared_ptr<const Services> RouteDoor::services() {
    return {shared_from_this(), &services_};
}

void RouteDoor::change(const sandbox::EgressSettings& settings) {
    const auto before = std::exchange(routes_, {});
    for (const sandbox::EgressRoute& route : settings.routes)
        add(route, settings.user_id);
    for (const sandbox::EgressRoute& route : defaults_)
        add(route, "");
    // A route that stays as it was goes on.
    for (const auto& [name, old] : before) {
        const auto now = routes_.find(name);
        if (now != routes_.end() && now->second->settings == old->settings &&
            now->second->user_id == old->user_id)
            now->second = old;
    }
    for (const Open& flow : flows_) {
        if (!is_current(flow.route))
            flow.client->cut_at(flow.client->now());
    }
}

// The first of a name counts: the sandbox's own.
void RouteDoor::add(const sandbox::EgressRoute& route, const std::string& user_id) {
    auto upstream = egress::parse_upstream(route.upstream);
    if (!upstream || routes_.contains(route.name))
        return;
    auto rules = parts_.policy.rules(list_of_upstream(*upstream, user_id));
    routes_.emplace(route.name, std::make_shared<const Route>(
                                    Route{route, user_id, std::move(*upstream), std::move(rules)}));
}

bool RouteDoor::is_current(const RoutePtr& route) const {
    const auto found = routes_.find(route->settings.name);
    return found != routes_.end() && found->second == route;
}

std::shared_ptr<const void> RouteDoor::enlist(const RoutePtr& route, Connection& client) {
    const auto place = flows_.insert(flows_.end(), {route, &client});
    // The session that runs the flow keeps this.
    return {this, [this, place](const void*) { flows_.erase(place); }};
}

Decision RouteDoor::admit(RequestContext& context, const Arrival&) {
    Decision decision;
    // The answer to TRACE would show what the route sets (RFC 9110 section 9.3.8); behind CONNECT are bytes
    // that no rule of the route has looked at.
    const std::string_view method = context.request.method_text;
    if (method == "TRACE" || method == "CONNECT") {
        decision.refusal = refuse(
            context, Error(Errc::method_not_allowed, "No route passes " + std::string(method) + " on."));
        return decision;
    }
    decision.handler = &handler_;
    decision.body = BodyKind::stream;
    return decision;
}

Result<RouteDoor::Asked> RouteDoor::find(const Request& request) const {
    std::string_view rest = request.path;
    rest.remove_prefix(rest.starts_with('/') ? 1 : 0);
    const auto slash = std::min(rest.find('/'), rest.size());
    const std::string_view name = rest.substr(0, slash);
    rest.remove_prefix(slash);
    const auto found = routes_.find(name);
    if (found == routes_.end() || name.empty())
        return Error(Errc::not_found, "This sandbox has no route of this name.");
    const RoutePtr& route = found->second;
    const auto& [settings, user_id, upstream, rules] = *route;
    if (!settings.methods.empty() && std::find(settings.methods.begin(), settings.methods.end(),
                                               request.method_text) == settings.methods.end())
        return Error(Errc::network_not_allowed,
                     "The route " + settings.name + " does not allow this method.");
    const bool is_bound = !settings.paths.empty() || !upstream.prefix.empty();
    if (is_bound && egress::is_ambiguous_path(rest))
        return Error(Errc::network_not_allowed, "The route " + settings.name +
                                                    " takes no path with \"..\", \"//\" or encoded forms of "
                                                    "them.");
    const auto matches = [&](const std::string& pattern) { return egress::matches_path(pattern, rest); };
    if (!settings.paths.empty() && std::none_of(settings.paths.begin(), settings.paths.end(), matches))
        return Error(Errc::network_not_allowed, "The route " + settings.name + " does not allow this path.");
    std::string path = upstream.prefix + std::string(rest);
    return Asked{route, path.empty() ? "/" : std::move(path)};
}

Result<SetFields> RouteDoor::fields_of(const Route& route) const {
    // No growth is to leave a copy of a value.
    std::size_t bytes = 0;
    for (const sandbox::RouteHeader& header : route.settings.headers)
        bytes += header.name.size() + header.value.size() + 4 +
                 (header.secret.empty() ? 0 : secrets::k_max_value_bytes);
    SetFields fields;
    fields.reserve(bytes);
    for (const sandbox::RouteHeader& header : route.settings.headers) {
        if (header.secret.empty()) {
            fields.add(header.name, header.value, "");
            continue;
        }
        if (parts_.secrets == nullptr)
            return Error(Errc::upstream_failed, "This server has no secrets.");
        const auto take = [&](std::string_view value) { fields.add(header.name, header.value, value); };
        // The program inside hears no more than that.
        if (parts_.secrets->open(header.secret, route.user_id, route.upstream.endpoint.host.name, take)
                .has_error())
            return Error(Errc::upstream_failed,
                         "The route " + route.settings.name + " has a secret that cannot be used.");
    }
    return fields;
}

base::Task<Result<std::unique_ptr<ByteStream>>> RouteDoor::async_connect(RequestContext& context,
                                                                         const Route& route,
                                                                         const EgressGrant& target,
                                                                         EgressReport& report) {
    const bool is_plain = route.upstream.scheme == egress::Scheme::http;
    const EgressDoor::Filter filter = [&](EgressAddresses& addresses) {
        route.rules->keep_dialable(target, addresses);
        std::erase_if(addresses, [&](const IpAddress& address) {
            return is_plain && !route.rules->is_opened(address, target.port);
        });
    };
    auto stream = co_await door_->async_connect(context, target, filter, report);
    if (stream.has_error() || is_plain)
        co_return std::move(stream);
    if (!parts_.secure)
        co_return Error(Errc::upstream_failed, "This server speaks no TLS to upstreams.");
    const auto secure = [&](EgressDialDone done) {
        parts_.secure(std::move(*stream), target.host, std::move(done));
    };
    auto secured = co_await context.async_reply<std::unique_ptr<ByteStream>>(secure);
    if (secured.has_error())
        co_return Error(secured.error().code(),
                        egress_authority(target, 0) + ": " + secured.error().detail());
    co_return std::move(secured);
}

base::Task<Result<Response>> RouteDoor::async_answer(RequestContext& context) {
    auto asked = find(context.request);
    EgressRequest request;
    request.sandbox_id = sandbox_id_;
    request.form = EgressForm::route;
    request.method = context.request.method_text;
    if (asked.has_value())
        request.route = asked->route->settings.name;
    const auto report = std::make_shared<EgressReport>(parts_.reports, std::move(request));
    if (asked.has_error()) {
        // What is refused has its turn, too, as at the proxy.
        static_cast<void>(co_await door_->async_turn(context));
        report->refuse(asked.error());
        co_return asked.error();
    }
    auto response = co_await async_open(context, *asked, report);
    if (response.has_error())
        report->refuse(response.error());
    co_return response;
}

base::Task<Result<Response>> RouteDoor::async_open(RequestContext& context, const Asked& asked,
                                                   std::shared_ptr<EgressReport> report) {
    const RoutePtr route = asked.route;
    report->about(route->upstream.endpoint.host.name, route->upstream.endpoint.port);
    const auto turn = co_await door_->async_turn(context);
    if (turn.has_error())
        co_return turn.error();
    const auto grant = route->rules->check(route->upstream.endpoint.text(), 0);
    if (grant.has_error())
        co_return grant.error();
    const EgressGrant target = *grant;
    auto stream = co_await async_connect(context, *route, target, *report);
    if (stream.has_error())
        co_return stream.error();
    // The routes may have changed meanwhile.
    if (!is_current(route))
        co_return Error(Errc::network_not_allowed, "This sandbox has no longer this route.");
    auto fields = fields_of(*route);
    if (fields.has_error())
        co_return fields.error();
    auto heads = std::make_shared<std::unique_ptr<HeadPolicy>>(
        std::make_unique<RouteHeads>(route->upstream.authority(), asked.path, std::move(*fields)));
    auto enlist_it = [this, route](Connection& client) { return enlist(route, client); };
    auto refuse_it = [this, &context](const Error& error) {
        return std::make_unique<Response>(refuse(context, error));
    };
    auto take_heads = [heads] { return std::move(*heads); };
    EgressFlow::Ports ports{std::move(enlist_it), std::move(refuse_it), {}, report,
                            door_->turns(),       std::move(take_heads)};
    Response response;
    response.payer =
        parts_.bounds ? parts_.bounds->owner(sandbox_id_) : base::ShareHolder::thing(sandbox_id_);
    response.relay = std::make_unique<EgressFlow>(EgressForm::route, target,
                                                  report->count(std::move(*stream)), std::move(ports));
    co_return response;
}

}  // namespace atl::http
