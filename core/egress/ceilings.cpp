#include "core/egress/ceilings.hpp"

#include <algorithm>
#include <utility>

#include "core/base/nearest.hpp"
#include "core/egress/address_filter.hpp"
#include "core/egress/limits.hpp"

namespace atl::egress {
namespace {

using base::Errc;
using base::Error;
using base::Result;

Error bad_value(std::string must_be) {
    return {Errc::invalid_field, std::move(must_be)};
}

Error beyond(const Rule& rule, std::string_view why) {
    return Error(Errc::network_not_allowed,
                 "`network.allow`: \"" + to_string(rule) + "\" " + std::string(why))
        .at("/network/allow");
}

Verdict denied(const Endpoint& endpoint, std::string_view why) {
    return {std::nullopt, endpoint.host.address ? "ip_literal" : "not_listed",
            endpoint.text() + " is not allowed: " + std::string(why)};
}

}  // namespace

Result<void> Ceilings::allow(std::string_view text) {
    auto rule = parse_rule(text);
    if (rule.has_error())
        return std::move(rule).error();
    if (allowed_.size() == k_max_patterns)
        return bad_value("must not come more than " + std::to_string(k_max_patterns) + " times");
    allowed_.push_back(std::move(*rule));
    return {};
}

Result<void> Ceilings::add_group(std::string_view text) {
    const auto equals = text.find('=');
    const auto name = text.substr(0, equals);
    if (equals == std::string_view::npos || equals + 1 == text.size() || !is_group_name(name))
        return bad_value(
            "must be NAME=PATTERN,PATTERN with a name of 1 to 64 letters, digits, '-' and '_', not " +
            std::string(text));
    if (groups_.find(name) != groups_.end())
        return bad_value("has the group " + std::string(name) + " twice");
    if (groups_.size() == k_max_groups)
        return bad_value("must not make more than " + std::to_string(k_max_groups) + " groups");
    Patterns patterns;
    for (std::string_view rest = text.substr(equals + 1); !rest.empty();) {
        const auto comma = rest.find(',');
        auto pattern = Pattern::parse(rest.substr(0, comma));
        if (pattern.has_error())
            return std::move(pattern).error();
        patterns.push_back(std::move(*pattern));
        if (++grouped_ > k_max_patterns)
            return bad_value("must not have more than " + std::to_string(k_max_patterns) +
                             " patterns in all");
        rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
    groups_.emplace(name, std::move(patterns));
    return {};
}

Result<void> Ceilings::allow_private(std::string_view text) {
    const auto colon = text.rfind(':');
    std::string_view range = text.substr(0, colon);
    const bool has_brackets = range.size() >= 2 && range.front() == '[' && range.back() == ']';
    if (has_brackets)
        range = range.substr(1, range.size() - 2);
    // The last group of an IPv6 address without brackets could be a port.
    const bool is_clear = has_brackets || range.find(':') == std::string_view::npos ||
                          range.find('/') != std::string_view::npos;
    auto prefix = is_clear ? base::parse_prefix(range) : std::nullopt;
    const auto port = colon == std::string_view::npos ? std::nullopt : parse_port(text.substr(colon + 1));
    if (!prefix || !port)
        return bad_value(
            "must be CIDR:PORT as 10.0.0.0/8:443, 127.0.0.1:8080 or [fd00::/8]:443, without bits behind the "
            "prefix, not " +
            std::string(text));
    if (ranges_.size() == k_max_private_ranges)
        return bad_value("must not come more than " + std::to_string(k_max_private_ranges) + " times");
    ranges_.push_back({std::move(*prefix), *port});
    return {};
}

Result<void> Ceilings::check_groups() const {
    for (const Rule& rule : allowed_) {
        if (patterns_of(rule).empty())
            return bad_value("names " + to_string(rule) + ", which no --egress-group makes");
    }
    return {};
}

std::vector<std::string> Ceilings::group_names() const {
    std::vector<std::string> names;
    for (const auto& [name, patterns] : groups_)
        names.push_back(name);
    return names;
}

Result<void> Ceilings::check(const AllowList& list) const {
    if (!is_on())
        return Error(
            Errc::network_not_allowed,
            "network \"egress\" is off; the operator allows it with --egress-allow, --egress-group or "
            "--egress-private");
    for (const SetBy by : {SetBy::operator_key, SetBy::user_key}) {
        for (const Rule& rule : list.rules(by)) {
            if (auto good = check_rule(rule, by); good.has_error())
                return good;
        }
    }
    return {};
}

Verdict Ceilings::judge(const AllowList& list, const Endpoint& endpoint) const {
    const auto of_operator = granted(list.rules(SetBy::operator_key), endpoint);
    auto of_user = granted(list.rules(SetBy::user_key), endpoint);
    if (!of_operator && !of_user)
        return denied(endpoint, "no rule of `network.allow` matches it; \"" + endpoint.text() + "\" would");
    if (of_user) {
        if (const auto ceiling = granted(allowed_, endpoint))
            of_user =
                Grant{std::min(of_user->bytes, ceiling->bytes), std::min(of_user->reach, ceiling->reach)};
        else
            of_user.reset();
    }
    if (!of_operator && !of_user)
        return denied(endpoint, "no --egress-allow of the operator matches it");
    // The rules of both together allow no more than those of one.
    const bool is_users = !of_operator || (of_user && of_user->holds(*of_operator));
    return {is_users ? of_user : of_operator, {}, {}};
}

std::optional<std::string_view> Ceilings::refusal(const base::IpAddress& address, std::uint16_t port,
                                                  Reach reach, std::span<const base::IpAddress> own) const {
    auto kind = special_kind(address);
    if (!kind && std::find(own.begin(), own.end(), address) != own.end())
        kind = "this host's own";
    if (kind && reach == Reach::ranges && is_opened(address, port))
        return std::nullopt;
    return kind;
}

std::span<const Pattern> Ceilings::patterns_of(const Rule& rule) const {
    if (const auto* const pattern = std::get_if<Pattern>(&rule))
        return {pattern, 1};
    const auto group = groups_.find(std::get<GroupName>(rule).name);
    return group == groups_.end() ? std::span<const Pattern>() : std::span<const Pattern>(group->second);
}

std::optional<Grant> Ceilings::granted(std::span<const Rule> rules, const Endpoint& endpoint) const {
    std::optional<Grant> grant;
    for (const Rule& rule : rules) {
        for (const Pattern& pattern : patterns_of(rule)) {
            if (!pattern.matches(endpoint))
                continue;
            const Reach reach = pattern.hosts == Pattern::Hosts::all ? Reach::public_only : Reach::ranges;
            const Grant before = grant.value_or(Grant{});
            grant = Grant{std::max(before.bytes, pattern.bytes), std::max(before.reach, reach)};
        }
    }
    return grant;
}

bool Ceilings::covers(const Pattern& pattern) const {
    const auto ports = pattern.ports();
    return std::all_of(ports.begin(), ports.end(), [&](std::uint16_t port) {
        return std::any_of(allowed_.begin(), allowed_.end(), [&](const Rule& ceiling) {
            const auto patterns = patterns_of(ceiling);
            return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& wider) {
                return wider.has_port(port) && wider.bytes >= pattern.bytes && wider.covers_hosts(pattern);
            });
        });
    });
}

bool Ceilings::is_opened(const base::IpAddress& address, std::uint16_t port) const noexcept {
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
        return range.port == port && base::contains(range.prefix, address);
    });
}

bool Ceilings::names(const base::IpAddress& address) const noexcept {
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [&](const Range& range) { return base::contains(range.prefix, address); });
}

Result<void> Ceilings::check_rule(const Rule& rule, SetBy set_by) const {
    const auto patterns = patterns_of(rule);
    if (patterns.empty()) {
        const auto names = group_names();
        return Error(Errc::invalid_field, "`network.allow`: there is no group \"" + to_string(rule) + "\"." +
                                              base::those_there_are("groups", names))
            .at("/network/allow");
    }
    const bool is_user = set_by == SetBy::user_key;
    for (const Pattern& pattern : patterns) {
        if (is_user && std::holds_alternative<Pattern>(rule) && pattern.is_literal())
            return beyond(rule, "is an address, and a key with a user may list names alone");
        if (is_user && !covers(pattern))
            return beyond(rule, "has a host or a port that no --egress-allow of the operator matches" +
                                    std::string(pattern.bytes == Bytes::any ? " with /tcp" : ""));
        if (!pattern.is_literal() || !special_kind(*pattern.host.address))
            continue;
        for (const std::uint16_t port : pattern.ports()) {
            if (!is_opened(*pattern.host.address, port))
                return beyond(rule, "is no public address (" +
                                        std::string(*special_kind(*pattern.host.address)) +
                                        "): the operator allows it with --egress-private " +
                                        Endpoint{pattern.host, port}.text());
        }
    }
    return {};
}

}  // namespace atl::egress
