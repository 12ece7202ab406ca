#include "app/sandbox_egress.hpp"

#include <stdexcept>

#include "http/egress/egress_dial.hpp"

namespace atl::app {

SandboxEgress::SandboxEgress(const egress::Ceilings& ceilings, const Ports& ports)
    : policy_(ceilings),
      resolver_(ports.executor, ports.timers, ports.clock, {}),
      look_ups_(resolver_),
      service_(ports.server, http::EgressParts{policy_, look_ups_.look_up(),
                                               http::make_egress_dial(ports.executor, ports.timers),
                                               http::make_hello_reader}) {}

base::Result<std::unique_ptr<SandboxEgress>> SandboxEgress::open(const egress::Ceilings& ceilings,
                                                                 const Ports& ports,
                                                                 sandbox::Manager& sandboxes) {
    std::unique_ptr<SandboxEgress> made;
    if (!ceilings.is_on())
        return made;
    try {
        made = std::make_unique<SandboxEgress>(ceilings, ports);
    } catch (const std::runtime_error& error) {
        return base::Error(base::Errc::host_unsupported, error.what());
    }
    sandboxes.set_egress(&made->service_);
    return made;
}

}  // namespace atl::app
