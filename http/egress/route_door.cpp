#include "http/egress/route_door.hpp"

#include <algorithm>
#include <utility>

#include "http/egress/egress_flow.hpp"
#include "http/egress/egress_report.hpp"
#include "http/server/problem.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

}  // namespace

RouteDoor::RouteDoor(std::string sandbox_id, EgressParts parts, std::shared_ptr<EgressDoor> door,
                     std::vector<sandbox::EgressRoute> defaults, const sandbox::EgressSettings& settings)
    : sandbox_id_(std::move(sandbox_id)),
      parts_(std::move(parts)),
      door_(std::move(door)),
      defaults_(std::move(defaults)),
      handler_([this](RequestContext& context) { return async_answer(context); }) {
    change({sandbox::NetworkMode::egress, settings});
}

RouteDoor::~RouteDoor() = default;

std::shared_ptr<const Services> RouteDoor::services() {
    return {shared_from_this(), &services_};
}

void RouteDoor::change(const sandbox::NetworkSettings& network) {
    const auto before = std::exchange(routes_, {});
    if (network.mode == sandbox::NetworkMode::egress) {
        for (const sandbox::EgressRoute& route : network.egress.routes)
            add(route, network.egress.user_of('/' + route.name));
        for (const sandbox::EgressRoute& route : defaults_)
            add(route, "");
    }
    // A route that stays as it was goes on.
    for (const auto& [name, old] : before) {
        const auto now = routes_.find(name);
        if (now != routes_.end() && is_same_rule(*now->second, *old))
            now->second = old;
    }
    for (const Open& flow : flows_) {
        if (!is_current(flow.route))
            flow.client->cut_at(flow.client->now());
    }
}

// The first of a name counts: the sandbox's own.
void RouteDoor::add(const sandbox::EgressRoute& route, const std::string& user_id) {
    if (routes_.contains(route.name))
        return;
    if (auto rule = make_route_rule(parts_.policy, route, user_id))
        routes_.emplace(route.name, std::move(rule));
}

bool RouteDoor::is_current(const RouteRulePtr& route) const {
    const auto found = routes_.find(route->settings.name);
    return found != routes_.end() && found->second == route;
}

std::shared_ptr<const void> RouteDoor::enlist(const RouteRulePtr& route, Connection& client) {
    const auto place = flows_.insert(flows_.end(), {route, &client});
    // The session that runs the flow keeps this.
    return {this, [this, place](const void*) { flows_.erase(place); }};
}

Decision RouteDoor::admit(RequestContext&, const Arrival&) {
    Decision decision;
    decision.handler = &handler_;
    decision.body = BodyKind::stream;
    return decision;
}

RouteDoor::Asked RouteDoor::find(const Request& request) const {
    std::string_view rest = request.path;
    rest.remove_prefix(rest.starts_with('/') ? 1 : 0);
    const auto slash = std::min(rest.find('/'), rest.size());
    const std::string_view name = rest.substr(0, slash);
    rest.remove_prefix(slash);
    const auto found = routes_.find(name);
    return {found == routes_.end() || name.empty() ? nullptr : found->second, std::string(rest)};
}

Result<std::string> RouteDoor::path_of(const Request& request, const Asked& asked, EgressReport& report) {
    // The answer to TRACE would show what the route sets (RFC 9110 section 9.3.8); behind CONNECT are bytes
    // that no rule of the route has looked at.
    const std::string_view method = request.method_text;
    if (method == "TRACE" || method == "CONNECT")
        return Error(Errc::method_not_allowed, "No route passes " + std::string(method) + " on.");
    if (asked.route == nullptr)
        return Error(Errc::not_found, "This sandbox has no route of this name.");
    auto path = path_at_upstream(*asked.route, method, asked.rest);
    if (path.has_error())
        report.deny(EgressReason::rule);
    return path;
}

base::Task<Result<Response>> RouteDoor::async_answer(RequestContext& context) {
    const Asked asked = find(context.request);
    EgressRequest request;
    request.sandbox_id = sandbox_id_;
    request.form = EgressForm::route;
    request.method = context.request.method_text;
    if (asked.route != nullptr)
        request.route = asked.route->settings.name;
    const auto report = std::make_shared<EgressReport>(parts_.reports, std::move(request));
    if (asked.route != nullptr)
        report->about(asked.route->upstream.endpoint.host.name, asked.route->upstream.endpoint.port);
    auto response = co_await async_open(context, asked, report);
    if (response.has_error())
        report->refuse(response.error());
    co_return response;
}

base::Task<Result<Response>> RouteDoor::async_open(RequestContext& context, const Asked& asked,
                                                   std::shared_ptr<EgressReport> report) {
    // A refused request waits for its turn, too, as at the proxy.
    const auto turn = co_await door_->async_turn(context);
    const auto path = path_of(context.request, asked, *report);
    if (path.has_error())
        co_return path.error();
    if (turn.has_error())
        co_return turn.error();
    const RouteRulePtr route = asked.route;
    const auto grant = route->rules->check(route->upstream.endpoint.text(), 0);
    if (grant.has_error())
        co_return grant.error();
    const EgressGrant target = *grant;
    auto stream = co_await door_->async_connect(context, *route, target, *report);
    if (stream.has_error())
        co_return stream.error();
    // The routes may have changed meanwhile.
    if (!is_current(route))
        co_return Error(Errc::network_not_allowed, "This sandbox has no longer this route.");
    auto fields = fields_of(parts_, *route);
    if (fields.has_error())
        co_return fields.error();
    auto heads = std::make_shared<std::unique_ptr<HeadPolicy>>(
        std::make_unique<RouteHeads>(route->upstream.authority(), *path, std::move(*fields)));
    auto enlist_it = [this, route](Connection& client) { return enlist(route, client); };
    auto refuse_it = [this, &context](const Error& error) {
        return std::make_unique<Response>(refuse(context, error));
    };
    auto take_heads = [heads](const Request&, EgressReport&) -> Result<std::unique_ptr<HeadPolicy>> {
        return std::move(*heads);
    };
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
