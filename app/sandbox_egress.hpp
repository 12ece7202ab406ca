// The proxies of sandboxes with network mode `egress`, with all that they need.
#pragma once

#include <memory>
#include <vector>

#include "app/config.hpp"
#include "app/egress_reports.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/shares.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/manager.hpp"
#include "http/egress/egress_adapters.hpp"
#include "http/egress/egress_questions.hpp"
#include "http/egress/egress_service.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::app {

/// How the server verifies upstreams that it speaks TLS to: by the issuers of this host and those of
/// --egress-ca. Blocks on the disk: for the start. Errors: as of TlsContext::make_client(); the flag is
/// named.
base::Result<std::shared_ptr<const http::TlsContext>> upstream_tls(const Config& config);

/// True if a sandbox may have the network `egress`: a flag of the operator opens it to requests, or an agent
/// has routes of the operator's, which are then all that it reaches.
bool needs_egress(const Config& config, const std::vector<sandbox::AgentSpec>& agents);

class SandboxEgress {
  public:
    /// All of it must outlive the proxies.
    struct Ports {
        base::Executor executor;
        base::Timers& timers;
        const base::Clock& clock;
        http::Server& server;
        const secrets::Secrets& secrets;
        conversation::Manager& conversations;
        base::Budgets& budgets;  // gets those of the proxies
    };
    /// Serves `sandboxes` from now on; null where needs_egress() is false. Reads resolv.conf and the
    /// files of --egress-ca. `config` must outlive it. Errors: host_unsupported; those of upstream_tls() and
    /// of open_egress_recorder().
    static base::Result<std::unique_ptr<SandboxEgress>> open(const Config& config, const Ports& ports,
                                                             sandbox::Manager& sandboxes);
    /// Throws std::runtime_error if resolv.conf cannot be read.
    SandboxEgress(const Config& config, const Ports& ports, const sandbox::Manager& sandboxes,
                  std::shared_ptr<const http::TlsContext> tls,
                  std::shared_ptr<http::EgressRecorder> recorder);

    const http::EgressRecorder& recorder() const noexcept { return *recorder_; }
    /// Waits for no name server any more, so that the loop can end. The timers have to stop, too.
    void let_go() noexcept { resolver_.let_go(); }
    http::EgressQuestions& questions() noexcept { return questions_; }

  private:
    // Requests that end after this is destroyed have it, too.
    const std::shared_ptr<http::EgressRecorder> recorder_;
    const std::shared_ptr<http::EgressBounds> bounds_;
    http::CeilingPolicy policy_;
    http::EgressQuestions questions_;
    http::Resolver resolver_;
    http::EgressLookUps look_ups_;
    http::StoredSecrets secrets_;
    http::EgressService service_;
};

}  // namespace atl::app
