#include "http/egress/egress_door.hpp"

#include <algorithm>
#include <utility>

#include "core/egress/host.hpp"
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

EgressDoor::EgressDoor(std::string sandbox_id, EgressParts parts, const sandbox::EgressSettings& settings)
    : sandbox_id_(std::move(sandbox_id)),
      parts_(std::move(parts)),
      rules_(parts_.policy.rules(settings)),
      turns_(parts_.bounds ? parts_.bounds->turns(sandbox_id_) : nullptr),
      handler_([this](RequestContext& context) { return async_answer(context); }) {}

EgressDoor::~EgressDoor() = default;

std::shared_ptr<const Services> EgressDoor::services() {
    return {shared_from_this(), &services_};
}

// Nothing is resumed from inside cut_at(): entries stay where they are.
void EgressDoor::change(const sandbox::EgressSettings& settings) {
    rules_ = parts_.policy.rules(settings);
    for (const Open& flow : flows_) {
        if (!rules_->holds(flow.grant))
            flow.client->cut_at(flow.client->now());
    }
    if (parts_.questions != nullptr)
        parts_.questions->review(sandbox_id_, *rules_);
}

std::shared_ptr<const void> EgressDoor::enlist(const EgressGrant& grant, Connection& client) {
    const auto place = flows_.insert(flows_.end(), {grant, &client});
    // The session that runs the flow keeps this.
    return {this, [this, place](const void*) { flows_.erase(place); }};
}

Decision EgressDoor::admit(RequestContext& context, const Arrival&) {
    Decision decision;
    // It would show what the proxy has added (RFC 9110 section 9.3.8).
    if (context.request.method_text == "TRACE") {
        decision.refusal =
            refuse(context, Error(Errc::method_not_allowed, "This proxy does not pass TRACE on."));
        return decision;
    }
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

base::Task<base::Result<Response>> EgressDoor::async_open(RequestContext& context, EgressForm form,
                                                          std::shared_ptr<EgressReport> report) {
    const std::uint16_t default_port = form == EgressForm::connect ? std::uint16_t{0} : k_default_port;
    if (const auto asked = egress::parse_endpoint(context.request.authority, default_port))
        report->about(asked->host.name, asked->port);
    // What is refused has its turn, too: a program that asks again and again costs no more than others.
    const auto turn = co_await async_turn(context);
    EgressGrant target;
    if (auto listed = rules_->check(context.request.authority, default_port)) {
        target = std::move(*listed);
        if (turn.has_error())
            co_return about(target, turn.error());
    } else {
        const Error refusal = listed.error();
        if (turn.has_error())
            co_return refusal;
        auto granted = co_await async_ask(context, refusal, default_port);
        if (granted.has_error())
            co_return granted.error();
        target = std::move(*granted);
    }
    const Filter filter = [&](EgressAddresses& addresses) { rules_->keep_dialable(target, addresses); };
    auto stream = co_await async_connect(context, target, filter, *report);
    if (stream.has_error())
        co_return stream.error();
    // The rules may have changed meanwhile.
    if (!rules_->holds(target))
        co_return Error(Errc::network_not_allowed,
                        egress_authority(target, 0) + " is no longer in the sandbox's list of hosts.");
    auto enlist_it = [this, target](Connection& client) { return enlist(target, client); };
    auto refuse_it = [this, &context](const Error& error) {
        return std::make_unique<Response>(refuse(context, error));
    };
    auto counted = report->count(std::move(*stream));
    EgressFlow::Ports ports{std::move(enlist_it), std::move(refuse_it), parts_.make_reader, std::move(report),
                            turns_};
    Response response;
    response.payer =
        parts_.bounds ? parts_.bounds->owner(sandbox_id_) : base::ShareHolder::thing(sandbox_id_);
    response.relay = std::make_unique<EgressFlow>(form, target, std::move(counted), std::move(ports));
    co_return response;
}

}  // namespace atl::http
