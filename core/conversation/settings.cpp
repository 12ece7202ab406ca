#include "core/conversation/settings.hpp"

#include <algorithm>

#include "core/sandbox/manager.hpp"

namespace atl::conversation {

const sandbox::AgentSpec* ManagerSettings::find_agent(const std::string& name) const {
    const auto found =
        std::find_if(agents.begin(), agents.end(), [&](const auto& spec) { return spec.name == name; });
    return found == agents.end() ? nullptr : &*found;
}

base::Result<void> check_network(const Context& context, const sandbox::NetworkSettings& network) {
    if (network.mode == sandbox::NetworkMode::host && !context.settings.allow_host_network)
        return base::Error(base::Errc::network_not_allowed,
                           "network \"host\" is off; the operator allows it with --allow-host-network");
    return context.sandboxes.check_network(network.mode, network.egress);
}

}  // namespace atl::conversation
