#include "http/egress/egress_door.hpp"

#include <algorithm>
#include <utility>

#include "core/egress/host.hpp"
#include "core/egress/route.hpp"
#include "core/plain/egress_limits.hpp"
#include "http/egress/egress_questions.hpp"
#include "http/server/problem.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::uint16_t k_default_port = 80;  // of an http: address

// The error of a part, about this target.
Error about(const EgressGrant& grant, const Error& error) {
    return Error(error.code(), egress_authority(grant, 0) + ": " + error.detail());
}

}  // namespace

EgressDoor::EgressDoor(std::string sandbox_id, EgressParts parts, const sandbox::EgressSettings& settings,
                       std::shared_ptr<SandboxCa> issuer)
    : sandbox_id_(std::move(sandbox_id)),
      parts_(std::move(parts)),
      issuer_(std::move(issuer)),
      turns_(parts_.bounds ? parts_.bounds->turns(sandbox_id_) : nullptr),
      handler_([this](RequestContext& context) { return async_answer(context); }) {
    change(settings);
}

EgressDoor::~EgressDoor() = default;

std::shared_ptr<const Services> EgressDoor::services() {
    return {shared_from_this(), &services_};
}

// Nothing is resumed from inside cut_at(): entries stay where they are.
void EgressDoor::change(const sandbox::EgressSettings& settings) {
    sandbox::EgressSettings sound = settings;
    // A damaged record opens no plain tunnel to a host that should have headers.
    for (const sandbox::EgressRoute& host : settings.hosts) {
        if (!egress::parse_upstream(host.upstream))
            std::erase(sound.allow, host.name);
    }
    rules_ = parts_.policy.rules(sound);
    const auto before = std::exchange(hosts_, {});
    for (const sandbox::EgressRoute& host : settings.hosts) {
        auto rule = make_route_rule(parts_.policy, host, settings.user_of(host.name));
        const auto old = before.find(host.name);
        // A rule that stays as it was goes on.
        if (rule != nullptr && old != before.end() && is_same_rule(*rule, *old->second))
            rule = old->second;
        if (rule != nullptr)
            hosts_.emplace(host.name, std::move(rule));
    }
    for (const Open& flow : flows_) {
        if (!rules_->holds(flow.grant) || rule_of(flow.grant) != flow.rule)
            flow.client->cut_at(flow.client->now());
    }
    if (parts_.questions != nullptr)
        parts_.questions->review(sandbox_id_, *rules_);
}

base::Result<std::shared_ptr<const TlsContext>> EgressDoor::tls_of(const EgressGrant& target,
                                                                   EgressForm form) const {
    if (form != EgressForm::connect)
        return Error(Errc::network_not_allowed,
                     egress_authority(target, 0) + " is reached with https: alone: its rule sets headers.");
    if (issuer_ == nullptr)
        return Error(Errc::upstream_failed, "This sandbox has no issuer for hosts with headers.");
    return issuer_->leaf(target.host);
}

RouteRulePtr EgressDoor::rule_of(const EgressGrant& target) const {
    const auto found = hosts_.find(egress_authority(target, 0));
    return found == hosts_.end() ? nullptr : found->second;
}

base::Result<void> EgressDoor::still_granted(const EgressGrant& target, const RouteRule* rule) const {
    if (!rules_->holds(target) || rule_of(target).get() != rule)
        return Error(Errc::network_not_allowed,
                     egress_authority(target, 0) + " is no longer in the sandbox's list of hosts.");
    return {};
}

std::shared_ptr<const void> EgressDoor::enlist(const EgressGrant& grant, const RouteRulePtr& rule,
                                               Connection& client) {
    const auto place = flows_.insert(flows_.end(), {grant, rule, &client});
    // The session that runs the flow keeps this.
    return {this, [this, place](const void*) { flows_.erase(place); }};
}

Decision EgressDoor::admit(RequestContext&, const Arrival&) {
    Decision decision;
    decision.handler = &handler_;
    decision.body = BodyKind::stream;
    return decision;
}

Response EgressDoor::refuse(const RequestContext&, const Error& error) {
    Response response;
    response.status = status_of(error.code());
    response.problem_code = base::code_name(error.code());
    response.content_type = "text/plain";
    // Many programs show the status line alone of a CONNECT that is refused.
    response.phrase = error_detail(error);
    response.body = response.phrase + '\n';
    return response;
}

base::Task<base::Result<EgressAddresses>> EgressDoor::async_addresses(RequestContext& context,
                                                                      const EgressGrant& grant,
                                                                      const Filter& filter,
                                                                      EgressReport& report) {
    EgressAddresses found;
    if (grant.address) {
        found.push_back(*grant.address);
    } else {
        const auto ask = [&](std::function<void(base::Result<EgressAddresses>)> done) {
            parts_.look_up(sandbox_id_, grant.host, std::move(done));
        };
        auto answer = co_await context.async_reply<EgressAddresses>(ask);
        if (answer.has_error()) {
            if (answer.error().code() == Errc::upstream_failed ||
                answer.error().code() == Errc::deadline_exceeded)
                report.deny(EgressReason::dns);
            co_return about(grant, answer.error());
        }
        found = std::move(*answer);
    }
    filter(found);
    if (found.empty()) {
        report.deny(EgressReason::private_address);
        co_return Error(Errc::network_not_allowed,
                        egress_authority(grant, 0) +
                            " has no public address: the operator allows others with --egress-private.");
    }
    found.resize(std::min(found.size(), base::k_max_egress_addresses));
    co_return found;
}

base::Task<base::Result<void>> EgressDoor::async_turn(RequestContext& context) {
    const auto await_turn = [this](EgressBounds::Turn done) {
        if (parts_.bounds)
            parts_.bounds->await_turn(sandbox_id_, std::move(done));
        else
            done(base::Result<void>());
    };
    co_return co_await context.async_reply<void>(await_turn);
}

base::Task<base::Result<std::unique_ptr<ByteStream>>> EgressDoor::async_connect(RequestContext& context,
                                                                                const EgressGrant& target,
                                                                                const Filter& filter,
                                                                                EgressReport& report) {
    auto addresses = co_await async_addresses(context, target, filter, report);
    if (addresses.has_error())
        co_return addresses.error();
    const auto dial = [&](EgressDialDone done) {
        parts_.dial(std::move(*addresses), target.port, std::move(done));
    };
    auto stream = co_await context.async_reply<std::unique_ptr<ByteStream>>(dial);
    if (stream.has_error())
        co_return about(target, stream.error());
    co_return std::move(*stream);
}

base::Task<base::Result<std::unique_ptr<ByteStream>>> EgressDoor::async_connect(RequestContext& context,
                                                                                const RouteRule& rule,
                                                                                const EgressGrant& target,
                                                                                EgressReport& report) {
    const Filter filter = [&](EgressAddresses& addresses) { http::keep_dialable(rule, target, addresses); };
    auto stream = co_await async_connect(context, target, filter, report);
    if (stream.has_error() || rule.is_plain())
        co_return std::move(stream);
    if (!parts_.secure)
        co_return Error(Errc::upstream_failed, "This server speaks no TLS to upstreams.");
    const auto secure = [&](EgressDialDone done) {
        parts_.secure(std::move(*stream), target.host, std::move(done));
    };
    auto secured = co_await context.async_reply<std::unique_ptr<ByteStream>>(secure);
    if (secured.has_error())
        co_return about(target, secured.error());
    co_return std::move(secured);
}

base::Task<base::Result<std::unique_ptr<ByteStream>>> EgressDoor::async_reach(RequestContext& context,
                                                                              const EgressGrant& target,
                                                                              const RouteRulePtr& rule,
                                                                              EgressReport& report) {
    if (rule != nullptr) {
        auto verified = co_await async_connect(context, *rule, target, report);
        co_return std::move(verified);
    }
    const Filter filter = [&](EgressAddresses& addresses) { rules_->keep_dialable(target, addresses); };
    auto stream = co_await async_connect(context, target, filter, report);
    co_return std::move(stream);
}

base::Task<base::Result<std::unique_ptr<ByteStream>>> EgressDoor::async_renew(
    RequestContext& context, const EgressGrant& target, const RouteRule& rule,
    const std::shared_ptr<EgressReport>& report) {
    const auto turn = co_await async_turn(context);
    if (turn.has_error())
        co_return about(target, turn.error());
    auto stream = co_await async_connect(context, rule, target, *report);
    if (stream.has_error())
        co_return stream.error();
    const auto granted = still_granted(target, &rule);
    if (granted.has_error())
        co_return granted.error();
    co_return report->count(std::move(*stream));
}

// Host is compared, although the upstream gets the granted name anyway: a program that means another site is
// to hear of it.
base::Result<std::unique_ptr<HeadPolicy>> EgressDoor::heads_of(const RouteRule& rule, const Request& request,
                                                               EgressReport& report) const {
    const egress::Endpoint& upstream = rule.upstream.endpoint;
    const auto named = egress::parse_endpoint(request.authority, upstream.port);
    if (!named || *named != upstream) {
        report.deny(EgressReason::sni_mismatch);
        return Error(Errc::network_not_allowed,
                     "Host names another site than the tunnel to " + upstream.text() + '.');
    }
    auto path = path_at_upstream(rule, request.method_text, request.path);
    if (path.has_error()) {
        report.deny(EgressReason::rule);
        return path.error();
    }
    auto fields = fields_of(parts_, rule);
    if (fields.has_error())
        return fields.error();
    return std::unique_ptr<HeadPolicy>(
        std::make_unique<RouteHeads>(rule.upstream.authority(), std::move(*path), std::move(*fields)));
}

base::Task<base::Result<Response>> EgressDoor::async_answer(RequestContext& context) {
    const bool is_connect = context.request.method_text == "CONNECT";
    const EgressForm form = is_connect ? EgressForm::connect : EgressForm::absolute;
    EgressRequest request;
    request.sandbox_id = sandbox_id_;
    request.form = form;
    request.method = context.request.method_text;
    const auto report = std::make_shared<EgressReport>(parts_.reports, std::move(request));
    auto response = co_await async_open(context, form, report);
    if (response.has_error())
        report->refuse(response.error());
    co_return response;
}

base::Task<base::Result<EgressGrant>> EgressDoor::async_ask(RequestContext& context, const Error& refusal,
                                                            std::uint16_t default_port) {
    const auto askable =
        parts_.questions == nullptr ? std::nullopt : rules_->askable(context.request.authority, default_port);
    if (!askable)
        co_return refusal;
    const EgressGrant target = *askable;
    const auto ask = [&](EgressQuestions::Asked done) {
        parts_.questions->ask(sandbox_id_, target, std::move(done));
    };
    auto may = co_await context.async_reply<EgressGrant>(ask);
    if (may.has_error())
        co_return may.error();
    // A rule for it is a grant like any other.
    auto listed = rules_->check(context.request.authority, default_port);
    if (listed.has_value())
        co_return std::move(*listed);
    co_return std::move(*may);
}

base::Task<base::Result<EgressGrant>> EgressDoor::async_grant(RequestContext& context,
                                                              std::uint16_t default_port) {
    // A refused request has its turn, too: a program that asks again and again costs no more than others.
    const auto turn = co_await async_turn(context);
    // The answer would show what the proxy has added (RFC 9110 section 9.3.8).
    if (context.request.method_text == "TRACE")
        co_return Error(Errc::method_not_allowed, "This proxy does not pass TRACE on.");
    auto listed = rules_->check(context.request.authority, default_port);
    if (listed.has_value()) {
        if (turn.has_error())
            co_return about(*listed, turn.error());
        co_return std::move(*listed);
    }
    const Error refusal = listed.error();
    if (turn.has_error())
        co_return refusal;
    co_return co_await async_ask(context, refusal, default_port);
}

base::Task<base::Result<Response>> EgressDoor::async_open(RequestContext& context, EgressForm form,
                                                          std::shared_ptr<EgressReport> report) {
    const std::uint16_t default_port = form == EgressForm::connect ? std::uint16_t{0} : k_default_port;
    if (const auto asked = egress::parse_endpoint(context.request.authority, default_port))
        report->about(asked->host.name, asked->port);
    auto granted = co_await async_grant(context, default_port);
    if (granted.has_error())
        co_return granted.error();
    const EgressGrant target = std::move(*granted);
    const RouteRulePtr rule = rule_of(target);
    std::shared_ptr<const TlsContext> tls;
    if (rule != nullptr) {
        auto leaf = tls_of(target, form);
        if (leaf.has_error()) {
            if (form != EgressForm::connect)
                report->deny(EgressReason::rule);
            co_return leaf.error();
        }
        tls = std::move(*leaf);
    }
    auto stream = co_await async_reach(context, target, rule, *report);
    if (stream.has_error())
        co_return stream.error();
    const auto kept = still_granted(target, rule.get());
    if (kept.has_error())
        co_return kept.error();
    auto enlist_it = [this, target, rule](Connection& client) { return enlist(target, rule, client); };
    auto refuse_it = [this, &context](const Error& error) {
        return std::make_unique<Response>(refuse(context, error));
    };
    auto counted = report->count(std::move(*stream));
    EgressFlow::Ports ports{std::move(enlist_it), std::move(refuse_it), parts_.make_reader, report, turns_};
    if (rule != nullptr) {
        ports.make_heads = [this, rule](const Request& request, EgressReport& asked) {
            return heads_of(*rule, request, asked);
        };
        ports.tls = std::move(tls);
        ports.reconnect = [this, &context, target, rule](const std::shared_ptr<EgressReport>& asked) {
            return async_renew(context, target, *rule, asked);
        };
    }
    Response response;
    response.payer =
        parts_.bounds ? parts_.bounds->owner(sandbox_id_) : base::ShareHolder::thing(sandbox_id_);
    response.relay = std::make_unique<EgressFlow>(form, target, std::move(counted), std::move(ports));
    co_return response;
}

}  // namespace atl::http
