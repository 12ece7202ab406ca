#include "core/conversation/settings.hpp"

#include <algorithm>
#include <utility>

#include "core/base/nearest.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

const sandbox::AgentSpec* ManagerSettings::find_agent(const std::string& name) const {
    const auto found =
        std::find_if(agents.begin(), agents.end(), [&](const auto& spec) { return spec.name == name; });
    return found == agents.end() ? nullptr : &*found;
}

base::Result<void> ManagerSettings::check_agent(const std::string& name) const {
    const sandbox::AgentSpec* const agent = find_agent(name);
    if (agent == nullptr) {
        std::vector<std::string> names;
        for (const sandbox::AgentSpec& spec : agents)
            names.push_back(spec.name);
        return base::Error(base::Errc::unknown_agent, "No agent has this name" +
                                                          base::did_you_mean(name, names, "`", ".") +
                                                          base::those_there_are("agents", names));
    }
    if (agent->missing.empty())
        return {};
    const std::string how = agent->setup.empty() ? "" : " This installs it: " + agent->setup;
    return base::Error(base::Errc::unknown_agent, "The agent `" + name + "` is not installed on this host: " +
                                                      agent->missing + "." + how);
}

base::Result<void> check_network(const Context& context, const sandbox::NetworkSettings& network) {
    if (network.mode == sandbox::NetworkMode::host && !context.settings.allow_host_network)
        return base::Error(base::Errc::network_not_allowed,
                           "network \"host\" is off; the operator allows it with --allow-host-network");
    return context.sandboxes.check_network(network.mode, network.egress);
}

base::Result<std::optional<sandbox::NetworkSettings>> changed_network(
    const Context& context, const sandbox::Record& before, std::optional<sandbox::NetworkSettings> wanted) {
    if (wanted) {
        wanted->egress.keep_user_rules(before.egress);
        if (auto may = check_network(context, *wanted); !may)
            return may.error();
    }
    return wanted;
}

void change_sandbox(const Context& context, sandbox::Record& record,
                    const std::optional<sandbox::NetworkSettings>& network,
                    const sandbox::PreviewChanges& preview) {
    if (network) {
        record.network = network->mode;
        record.egress = network->egress;
        context.sandboxes.set_network(record.id, *network);
    }
    record.preview = preview.applied_to(std::move(record.preview));
    context.sandboxes.set_preview(record.id, record.preview);
}

}  // namespace atl::conversation
