#include "http/egress/egress_adapters.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/plain/egress_limits.hpp"
#include "http/egress/client_hello.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

static_assert(k_max_client_hello_bytes <= base::k_max_egress_opening_bytes);
static_assert(Resolver::k_max_addresses <= base::k_max_egress_addresses);

base::Result<egress::AllowList> list_of_settings(const sandbox::EgressSettings& settings) {
    return egress::AllowList::parse(
        settings.allow, settings.user_id.empty() ? egress::SetBy::operator_key : egress::SetBy::user_key,
        settings.of_user.rules);
}

/// The way of a host that the list does not have.
enum class Unlisted : std::uint8_t { refused, asked };

class CeilingRules final : public EgressRules {
  public:
    CeilingRules(const egress::Ceilings& ceilings, std::shared_ptr<OwnAddresses> own, egress::AllowList list,
                 Unlisted unlisted)
        : ceilings_(ceilings), own_(std::move(own)), list_(std::move(list)), unlisted_(unlisted) {}

    base::Result<EgressGrant> check(std::string_view authority, std::uint16_t default_port) const override {
        const auto endpoint = egress::parse_endpoint(authority, default_port);
        if (!endpoint)
            return Error(Errc::invalid_request,
                         "This is no host with a port that the proxy of a sandbox knows: write a name, or an "
                         "address in its usual form.");
        const egress::Verdict verdict = ceilings_.judge(list_, *endpoint);
        if (!verdict.grant)
            return Error(Errc::network_not_allowed, verdict.why);
        return grant_of(*endpoint, *verdict.grant);
    }

    std::optional<EgressGrant> askable(std::string_view authority,
                                       std::uint16_t default_port) const override {
        const auto endpoint = egress::parse_endpoint(authority, default_port);
        const auto granted = endpoint ? grant_by_person(*endpoint) : std::nullopt;
        if (!granted)
            return std::nullopt;
        EgressGrant grant = grant_of(*endpoint, *granted);
        grant.was_asked = true;
        return grant;
    }

    void keep_dialable(const EgressGrant& grant, EgressAddresses& addresses) const override {
        std::erase_if(addresses, [&](const IpAddress& address) {
            const auto is_own = own_->has(address);
            const std::span<const IpAddress> own(&address, is_own.value_or(false) ? 1 : 0);
            return !is_own || ceilings_.refusal(address, grant.port, reach_of(grant), own);
        });
    }

    bool is_opened(const IpAddress& address, std::uint16_t port) const override {
        return ceilings_.is_opened(address, port);
    }

    bool holds(const EgressGrant& grant) const override {
        const egress::Endpoint endpoint{{grant.host, grant.address}, grant.port};
        auto now = ceilings_.judge(list_, endpoint).grant;
        if (!now && grant.was_asked)
            now = grant_by_person(endpoint);
        const egress::Grant before{grant.any_bytes ? egress::Bytes::any : egress::Bytes::tls,
                                   reach_of(grant)};
        return now && now->holds(before);
    }

  private:
    EgressGrant grant_of(const egress::Endpoint& endpoint, const egress::Grant& granted) const {
        return {endpoint.host.name, endpoint.port, endpoint.host.address, granted.bytes == egress::Bytes::any,
                granted.reach == egress::Reach::ranges && ceilings_.opens_any()};
    }
    /// Grants as if the list had a rule for this host and port, which the key that set it may list.
    std::optional<egress::Grant> grant_by_person(const egress::Endpoint& endpoint) const {
        if (unlisted_ == Unlisted::refused)
            return std::nullopt;
        const std::vector<std::string> rule{endpoint.text()};
        const auto list = egress::AllowList::parse(rule, list_.set_by());
        if (list.has_error() || ceilings_.check(*list).has_error())
            return std::nullopt;
        return ceilings_.judge(*list, endpoint).grant;
    }
    static egress::Reach reach_of(const EgressGrant& grant) {
        return grant.beyond_public ? egress::Reach::ranges : egress::Reach::public_only;
    }

    const egress::Ceilings& ceilings_;
    const std::shared_ptr<OwnAddresses> own_;
    const egress::AllowList list_;
    const Unlisted unlisted_;
};

class HelloOpeningReader final : public EgressOpeningReader {
  public:
    EgressOpening read(std::string_view input) override {
        using Found = ClientHelloReader::Found;
        switch (reader_.read(input)) {
            case Found::more:
                return EgressOpening::more;
            case Found::name:
                return EgressOpening::name;
            case Found::no_name:
                return EgressOpening::no_name;
            case Found::request:
                return EgressOpening::request;
            case Found::invalid:
            case Found::other:
                break;
        }
        return EgressOpening::other;
    }
    const std::string& server_name() const override { return reader_.server_name(); }
    std::size_t size() const override { return reader_.size(); }

  private:
    ClientHelloReader reader_;
};

base::Result<EgressAddresses> answer_of(const Resolution& resolution) {
    switch (resolution.status) {
        case Resolution::Status::found:
            return resolution.addresses;
        case Resolution::Status::timed_out:
            return Error(Errc::deadline_exceeded, "no name server answered in time");
        case Resolution::Status::server_failed:
            return Error(Errc::upstream_failed, "no name server gave an answer");
        case Resolution::Status::no_addresses:
        case Resolution::Status::not_a_name:
            break;
    }
    return Error(Errc::upstream_failed, "the name has no address");
}

}  // namespace

base::Result<void> CeilingPolicy::check(const sandbox::EgressSettings& settings) const {
    const auto list = list_of_settings(settings);
    if (list.has_error())
        return list.error();
    // The routes of agents need no list: the operator named them.
    if (!ceilings_.is_on() && settings.allow.empty() && !settings.ask)
        return {};
    return ceilings_.check(*list);
}

std::unique_ptr<const EgressRules> CeilingPolicy::rules(const sandbox::EgressSettings& settings) const {
    auto list = list_of_settings(settings);
    const Unlisted unlisted = list && settings.ask ? Unlisted::asked : Unlisted::refused;
    return std::make_unique<CeilingRules>(ceilings_, own_, list ? std::move(*list) : egress::AllowList(),
                                          unlisted);
}

EgressLookUp EgressLookUps::look_up() {
    return [this](const std::string& sandbox_id, const std::string& host, Done done) {
        ask(sandbox_id, host, std::move(done));
    };
}

void EgressLookUps::ask(const std::string& sandbox_id, const std::string& host, Done done) {
    Resolver::Shares shares;
    if (bounds_) {
        auto place = bounds_->look_up(sandbox_id);
        if (place.has_error())
            return done(place.error());
        shares.push_back(std::move(*place));
    }
    const auto at = asked_.insert(asked_.end(), Asked{std::move(done)});
    at->query =
        resolver_.start(host, std::move(shares), base::k_egress_look_up_time, [this, at] { finish(at); });
    if (at->query->answer())
        finish(at);
}

void EgressLookUps::finish(std::list<Asked>::iterator at) {
    const Asked asked = std::move(*at);
    asked_.erase(at);
    asked.done(answer_of(*asked.query->answer()));
}

base::Result<void> StoredSecrets::open(const std::string& name, const std::string& user_id,
                                       const std::string& host,
                                       const std::function<void(std::string_view value)>& take) const {
    const auto value = secrets_.open(name, user_id, host);
    if (value.has_error())
        return value.error();
    take(value->text());
    return {};
}

std::unique_ptr<EgressOpeningReader> make_hello_reader() {
    return std::make_unique<HelloOpeningReader>();
}

}  // namespace atl::http
