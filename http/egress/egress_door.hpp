// The proxy of one sandbox: a service whose listener lies inside, and says who asks. It takes CONNECT and
// requests with absolute http: targets. The rules are asked before a name is looked up, and the address that
// was checked is the one that is connected. A program inside gets a refusal as one line of text, with the
// host and the missing rule. A tunnel to a host whose rule sets headers is opened with a certificate of the
// sandbox's issuer; no other one is. Not here: bytes (egress_flow.hpp), the grammar of rules.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "http/egress/egress_flow.hpp"
#include "http/egress/egress_parts.hpp"
#include "http/egress/egress_report.hpp"
#include "http/egress/route_rules.hpp"
#include "http/egress/sandbox_ca.hpp"
#include "http/server/service.hpp"
#include "http/server/services.hpp"

namespace atl::http {

class EgressDoor final : public Service, public std::enable_shared_from_this<EgressDoor> {
  public:
    /// `issuer` null: rules that set headers let nothing through.
    EgressDoor(std::string sandbox_id, EgressParts parts, const sandbox::EgressSettings& settings,
               std::shared_ptr<SandboxCa> issuer = nullptr);
    ~EgressDoor() override;

    /// The services of the listener, which live as long as this.
    std::shared_ptr<const Services> services();
    /// From now on these settings count; what is open and not granted by them is cut.
    void change(const sandbox::EgressSettings& settings);
    /// Requests that are under way.
    std::size_t open() const noexcept { return flows_.size(); }

    /// Waits until a request of the sandbox may begin. Errors: those of EgressBounds::await_turn();
    /// shutting_down.
    base::Task<base::Result<void>> async_turn(RequestContext& context);
    /// A connection to the first address of a target that takes it, of those that `filter` keeps. Looks its
    /// name up, unless it is a literal; `report` hears of a name without an address. Errors:
    /// network_not_allowed, where it has no such address; those of EgressLookUp and EgressDial;
    /// shutting_down.
    using Filter = std::function<void(EgressAddresses& addresses)>;
    base::Task<base::Result<std::unique_ptr<ByteStream>>> async_connect(RequestContext& context,
                                                                        const EgressGrant& target,
                                                                        const Filter& filter,
                                                                        EgressReport& report);
    /// The same for the upstream of a rule, with TLS that is verified unless it is plain. Errors: those of
    /// EgressSecure, too.
    base::Task<base::Result<std::unique_ptr<ByteStream>>> async_connect(RequestContext& context,
                                                                        const RouteRule& rule,
                                                                        const EgressGrant& target,
                                                                        EgressReport& report);

    /// The turns in which the sandbox's bytes move; null without EgressParts::bounds.
    const std::shared_ptr<RelayTurns>& turns() const noexcept { return turns_; }

    TargetForms targets() const noexcept override { return TargetForms::of_proxy; }
    bool is_logged() const noexcept override { return false; }
    Decision admit(RequestContext& context, const Arrival& arrival) override;
    Response refuse(const RequestContext& context, const base::Error& error) override;

  private:
    struct Open {
        EgressGrant grant;
        RouteRulePtr rule;  // that sets headers; null: none does
        Connection* client;
    };

    base::Task<base::Result<Response>> async_answer(RequestContext& context);
    /// The target of a request that a person grants, whom it waits for where the rules have one asked.
    /// Errors: `refusal`, those of EgressQuestions::ask(); shutting_down.
    base::Task<base::Result<EgressGrant>> async_ask(RequestContext& context, const base::Error& refusal,
                                                    std::uint16_t default_port);
    /// The target of a request, after its turn. Errors: method_not_allowed, for TRACE; those of async_turn(),
    /// async_ask(), EgressRules::check().
    base::Task<base::Result<EgressGrant>> async_grant(RequestContext& context, std::uint16_t default_port);
    base::Task<base::Result<Response>> async_open(RequestContext& context, EgressForm form,
                                                  std::shared_ptr<EgressReport> report);
    base::Task<base::Result<EgressAddresses>> async_addresses(RequestContext& context,
                                                              const EgressGrant& grant, const Filter& filter,
                                                              EgressReport& report);
    base::Task<base::Result<std::unique_ptr<ByteStream>>> async_reach(RequestContext& context,
                                                                      const EgressGrant& target,
                                                                      const RouteRulePtr& rule,
                                                                      EgressReport& report);
    /// Another connection for the same tunnel, after a turn of its own. Errors: as of async_connect();
    /// those of async_turn() and still_granted().
    base::Task<base::Result<std::unique_ptr<ByteStream>>> async_renew(
        RequestContext& context, const EgressGrant& target, const RouteRule& rule,
        const std::shared_ptr<EgressReport>& report);
    base::Result<std::unique_ptr<HeadPolicy>> heads_of(const RouteRule& rule, const Request& request,
                                                       EgressReport& report) const;
    /// The certificate that a tunnel to such a target is opened with. Errors: network_not_allowed for another
    /// form; upstream_failed; internal.
    base::Result<std::shared_ptr<const TlsContext>> tls_of(const EgressGrant& target, EgressForm form) const;
    /// The rule that sets headers in requests to this target; null: there is none.
    RouteRulePtr rule_of(const EgressGrant& target) const;
    /// The rules may have changed while a connection was made. Errors: network_not_allowed.
    base::Result<void> still_granted(const EgressGrant& target, const RouteRule* rule) const;
    std::shared_ptr<const void> enlist(const EgressGrant& grant, const RouteRulePtr& rule,
                                       Connection& client);

    const std::string sandbox_id_;
    const EgressParts parts_;
    const std::shared_ptr<SandboxCa> issuer_;
    std::unique_ptr<const EgressRules> rules_;
    std::map<std::string, RouteRulePtr> hosts_;  // by "host:port"
    const std::shared_ptr<RelayTurns> turns_;
    std::list<Open> flows_;
    const Services services_{*this};
    const Handler handler_;
};

}  // namespace atl::http
