// The proxies of sandboxes with network mode `egress`, with all that they need.
#pragma once

#include <memory>

#include "app/config.hpp"
#include "app/egress_reports.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/manager.hpp"
#include "http/egress/egress_adapters.hpp"
#include "http/egress/egress_service.hpp"

namespace atl::app {

class SandboxEgress {
  public:
    /// All of it must outlive the proxies.
    struct Ports {
        base::Executor executor;
        base::Timers& timers;
        const base::Clock& clock;
        http::Server& server;
        conversation::Manager& conversations;
    };
    /// Serves `sandboxes` from now on; null where the operator allows nothing. Reads resolv.conf and the
    /// files of
    /// --egress-ca. `config` must outlive it. Errors: host_unsupported; those of TlsContext::make_client()
    /// and of open_egress_recorder().
    static base::Result<std::unique_ptr<SandboxEgress>> open(const Config& config, const Ports& ports,
                                                             sandbox::Manager& sandboxes);
    /// Throws std::runtime_error if resolv.conf cannot be read.
    SandboxEgress(const egress::Ceilings& ceilings, const Ports& ports,
                  std::shared_ptr<http::EgressRecorder> recorder);

    const http::EgressRecorder& recorder() const noexcept { return *recorder_; }

  private:
    // Requests that end after this is destroyed have it, too.
    const std::shared_ptr<http::EgressRecorder> recorder_;
    http::CeilingPolicy policy_;
    http::Resolver resolver_;
    http::EgressLookUps look_ups_;
    http::EgressService service_;
};

}  // namespace atl::app
