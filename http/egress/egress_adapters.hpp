// The parts of egress_parts.hpp as a server has them: rules by the operator's ceilings, look-ups by the
// resolver, secrets as they are stored, and the reader of ClientHellos. Nothing is decided here.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "core/egress/ceilings.hpp"
#include "core/secrets/secrets.hpp"
#include "http/egress/egress_parts.hpp"
#include "http/egress/own_addresses.hpp"
#include "http/egress/resolver.hpp"

namespace atl::http {

class CeilingPolicy final : public EgressPolicy {
  public:
    /// `ceilings` must outlive it and its rules.
    explicit CeilingPolicy(const egress::Ceilings& ceilings) : ceilings_(ceilings) {}
    base::Result<void> check(const sandbox::EgressSettings& settings) const override;
    std::unique_ptr<const EgressRules> rules(const sandbox::EgressSettings& settings) const override;

  private:
    const egress::Ceilings& ceilings_;
    const std::shared_ptr<OwnAddresses> own_ = std::make_shared<OwnAddresses>();  // of its rules, too
};

/// Look-ups that are under way. Destroying it drops them, without an answer.
class EgressLookUps {
  public:
    /// `resolver` must outlive it. With `bounds` each takes a place there.
    explicit EgressLookUps(Resolver& resolver, std::shared_ptr<EgressBounds> bounds = nullptr)
        : resolver_(resolver), bounds_(std::move(bounds)) {}
    EgressLookUps(const EgressLookUps&) = delete;
    EgressLookUps& operator=(const EgressLookUps&) = delete;

    /// Refers to this.
    EgressLookUp look_up();

  private:
    using Done = std::function<void(base::Result<EgressAddresses>)>;
    struct Asked {
        Done done;
        std::unique_ptr<Resolver::Query> query{};
    };
    void ask(const std::string& sandbox_id, const std::string& host, Done done);
    void finish(std::list<Asked>::iterator at);

    Resolver& resolver_;
    const std::shared_ptr<EgressBounds> bounds_;
    std::list<Asked> asked_;
};

class StoredSecrets final : public EgressSecrets {
  public:
    /// `secrets` must outlive it.
    explicit StoredSecrets(const secrets::Secrets& secrets) : secrets_(secrets) {}
    base::Result<void> check(const std::string& name, const std::string& user_id,
                             const std::string& host) const override {
        return secrets_.check(name, user_id, host);
    }
    base::Result<void> open(const std::string& name, const std::string& user_id, const std::string& host,
                            const std::function<void(std::string_view value)>& take) const override;

  private:
    const secrets::Secrets& secrets_;
};

std::unique_ptr<EgressOpeningReader> make_hello_reader();

}  // namespace atl::http
