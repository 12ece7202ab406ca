// The proxies of sandboxes with network mode `egress`, with all that they need.
#pragma once

#include <memory>

#include "app/config.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/sandbox/manager.hpp"
#include "http/egress/egress_adapters.hpp"
#include "http/egress/egress_service.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::app {

/// How the server verifies upstreams that it speaks TLS to: by the issuers of this host and those of
/// --egress-ca. Blocks on the disk: for the start. Errors: as of TlsContext::make_client(); the flag is
/// named.
base::Result<std::shared_ptr<const http::TlsContext>> upstream_tls(const Config& config);

class SandboxEgress {
  public:
    /// All of it must outlive the proxies.
    struct Ports {
        base::Executor executor;
        base::Timers& timers;
        const base::Clock& clock;
        http::Server& server;
    };
    /// Serves `sandboxes` from now on; null where the operator allows nothing. Reads resolv.conf and the
    /// files of --egress-ca. `config` must outlive it. Errors: host_unsupported; those of upstream_tls().
    static base::Result<std::unique_ptr<SandboxEgress>> open(const Config& config, const Ports& ports,
                                                             sandbox::Manager& sandboxes);
    /// Throws std::runtime_error if resolv.conf cannot be read.
    SandboxEgress(const egress::Ceilings& ceilings, const Ports& ports,
                  std::shared_ptr<const http::TlsContext> tls);

  private:
    http::CeilingPolicy policy_;
    http::Resolver resolver_;
    http::EgressLookUps look_ups_;
    http::EgressService service_;
};

}  // namespace atl::app
