#include "app/sandbox_egress.hpp"

#include <stdexcept>
#include <utility>

#include "http/egress/egress_dial.hpp"
#include "http/egress/egress_report.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::app {

SandboxEgress::SandboxEgress(const egress::Ceilings& ceilings, const Ports& ports,
                             std::shared_ptr<http::EgressRecorder> recorder)
    : recorder_(std::move(recorder)),
      policy_(ceilings),
      resolver_(ports.executor, ports.timers, ports.clock, {}),
      look_ups_(resolver_),
      service_(ports.server, http::EgressParts{policy_, http::told_look_up(look_ups_.look_up(), recorder_),
                                               http::make_egress_dial(ports.executor, ports.timers),
                                               http::make_hello_reader, recorder_}) {}

base::Result<std::unique_ptr<SandboxEgress>> SandboxEgress::open(const Config& config, const Ports& ports,
                                                                 sandbox::Manager& sandboxes) {
    std::unique_ptr<SandboxEgress> made;
    if (!config.egress.is_on())
        return made;
    // A bad file is told at the start, not by the first upstream.
    if (auto read = http::TlsContext::make_client(config.egress_ca); !read)
        return read.error();
    auto recorder = open_egress_recorder(config, ports.clock, ports.timers, ports.conversations, sandboxes);
    if (!recorder)
        return recorder.error();
    try {
        made = std::make_unique<SandboxEgress>(config.egress, ports, std::move(*recorder));
    } catch (const std::runtime_error& error) {
        return base::Error(base::Errc::host_unsupported, error.what());
    }
    sandboxes.set_egress(&made->service_);
    return made;
}

}  // namespace atl::app
