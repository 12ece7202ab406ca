#include "http/egress/route_rules.hpp"

#include <algorithm>
#include <utility>

#include "core/secrets/limits.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

/// A list with the upstream alone.
sandbox::EgressSettings list_of_upstream(const egress::Upstream& upstream, const std::string& user_id) {
    return {{upstream.endpoint.text()}, user_id};
}

Error about_rule(const Error& error, const char* member, std::size_t index, const std::string& title) {
    std::string_view why = error.detail();
    constexpr std::string_view k_list = "`network.allow`: ";
    if (why.starts_with(k_list))
        why.remove_prefix(k_list.size());
    return Error(error.code(),
                 "`network." + std::string(member) + "`: " + title + " is refused: " + std::string(why))
        .at("/network/" + std::string(member) + '/' + std::to_string(index));
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

Result<void> check_rule(const EgressParts& parts, const sandbox::EgressRoute& route,
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

// The name of a host with headers is its rule, which has a colon; that of a route never has one.
std::string RouteRule::title() const {
    return (settings.name.find(':') == std::string::npos ? "The route " : "The rule for ") + settings.name;
}

RouteRulePtr make_route_rule(const EgressPolicy& policy, const sandbox::EgressRoute& settings,
                             const std::string& user_id) {
    auto upstream = egress::parse_upstream(settings.upstream);
    if (!upstream)
        return nullptr;
    auto rules = policy.rules(list_of_upstream(*upstream, user_id));
    return std::make_shared<const RouteRule>(
        RouteRule{settings, user_id, std::move(*upstream), std::move(rules)});
}

bool is_same_rule(const RouteRule& a, const RouteRule& b) {
    return a.settings == b.settings && a.user_id == b.user_id;
}

Result<std::string> path_at_upstream(const RouteRule& rule, std::string_view method, std::string_view path) {
    const auto& [settings, user_id, upstream, rules] = rule;
    if (!settings.methods.empty() &&
        std::find(settings.methods.begin(), settings.methods.end(), method) == settings.methods.end())
        return Error(Errc::network_not_allowed, rule.title() + " does not allow this method.");
    const bool is_bound = !settings.paths.empty() || !upstream.prefix.empty();
    if (is_bound && egress::is_ambiguous_path(path))
        return Error(Errc::network_not_allowed,
                     rule.title() + " takes no path with \"..\", \"//\" or encoded forms of them.");
    const auto matches = [&](const std::string& pattern) { return egress::matches_path(pattern, path); };
    if (!settings.paths.empty() && std::none_of(settings.paths.begin(), settings.paths.end(), matches))
        return Error(Errc::network_not_allowed, rule.title() + " does not allow this path.");
    std::string at_upstream = upstream.prefix + std::string(path);
    return at_upstream.empty() ? "/" : std::move(at_upstream);
}

Result<SetFields> fields_of(const EgressParts& parts, const RouteRule& rule) {
    // No growth is to leave a copy of a value.
    std::size_t bytes = 0;
    for (const sandbox::RouteHeader& header : rule.settings.headers)
        bytes += header.name.size() + header.value.size() + 4 +
                 (header.secret.empty() ? 0 : secrets::k_max_value_bytes);
    SetFields fields;
    fields.reserve(bytes);
    for (const sandbox::RouteHeader& header : rule.settings.headers) {
        if (header.secret.empty()) {
            fields.add(header.name, header.value, "");
            continue;
        }
        if (parts.secrets == nullptr)
            return Error(Errc::upstream_failed, "This server has no secrets.");
        const auto take = [&](std::string_view value) { fields.add(header.name, header.value, value); };
        // The program inside hears no more than that.
        if (parts.secrets->open(header.secret, rule.user_id, rule.upstream.endpoint.host.name, take)
                .has_error())
            return Error(Errc::upstream_failed, rule.title() + " has a secret that cannot be used.");
    }
    return fields;
}

void keep_dialable(const RouteRule& rule, const EgressGrant& target, EgressAddresses& addresses) {
    rule.rules->keep_dialable(target, addresses);
    std::erase_if(addresses, [&](const IpAddress& address) {
        return rule.is_plain() && !rule.rules->is_opened(address, target.port);
    });
}

Result<void> check_routes(const EgressParts& parts, const sandbox::EgressSettings& settings) {
    for (std::size_t i = 0; i < settings.routes.size(); ++i) {
        const sandbox::EgressRoute& route = settings.routes[i];
        if (auto good = check_rule(parts, route, settings.user_of('/' + route.name)); good.has_error())
            return about_rule(good.error(), "routes", i, "the route \"" + route.name + '"');
    }
    for (const sandbox::EgressRoute& host : settings.hosts) {
        const auto at = std::find(settings.allow.begin(), settings.allow.end(), host.name);
        if (auto good = check_rule(parts, host, settings.user_of(host.name)); good.has_error())
            return about_rule(good.error(), "allow", static_cast<std::size_t>(at - settings.allow.begin()),
                              "the rule for \"" + host.name + '"');
    }
    return {};
}

}  // namespace atl::http
