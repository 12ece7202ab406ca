// Rules that set headers which programs inside do not see: routes, and hosts of a list with headers of their
// own. What such a rule lets through, what it sets, and what is asked of it as it is set. Its upstream meets
// the rules of a list with it alone. Not here: connections (egress_door.hpp), which fields pass
// (http/proxy/heads.hpp), the grammar (core/egress/route.hpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/egress/route.hpp"
#include "http/egress/egress_parts.hpp"
#include "http/proxy/heads.hpp"

namespace atl::http {

/// A rule as it is served. Does not change.
struct RouteRule {
    sandbox::EgressRoute settings;
    std::string user_id;  // of the key that set it
    egress::Upstream upstream;
    std::unique_ptr<const EgressRules> rules;

    bool is_plain() const noexcept { return upstream.scheme == egress::Scheme::http; }
    /// For sentences: "The route NAME", "The rule for HOST:PORT".
    std::string title() const;
};
using RouteRulePtr = std::shared_ptr<const RouteRule>;

/// Null for an upstream that is no address.
RouteRulePtr make_route_rule(const EgressPolicy& policy, const sandbox::EgressRoute& settings,
                             const std::string& user_id);
/// True if both say the same.
bool is_same_rule(const RouteRule& a, const RouteRule& b);

/// The path at the upstream of a request whose path, without the name of a route, is `path`. Errors:
/// network_not_allowed, where the rule does not let it through.
base::Result<std::string> path_at_upstream(const RouteRule& rule, std::string_view method,
                                           std::string_view path);
/// The headers that the rule sets in the next request. Errors: upstream_failed, where a secret cannot be
/// used.
base::Result<SetFields> fields_of(const EgressParts& parts, const RouteRule& rule);
/// Removes the addresses that no connection may be made to for this rule.
void keep_dialable(const RouteRule& rule, const EgressGrant& target, EgressAddresses& addresses);

/// Checks the routes and the hosts with headers of settings as they are set: what `policy` says of each
/// upstream, and that the secrets are there and for it. Errors: those of EgressPolicy::check() and
/// EgressSecrets::check(), about /network/routes/N or /network/allow/N; network_not_allowed, for an http:
/// upstream that the operator does not name.
base::Result<void> check_routes(const EgressParts& parts, const sandbox::EgressSettings& settings);

}  // namespace atl::http
