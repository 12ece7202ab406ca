#include "core/conversation/settings.hpp"

#include <algorithm>

namespace atl::conversation {

const sandbox::AgentSpec* ManagerSettings::find_agent(const std::string& name) const {
    const auto found =
        std::find_if(agents.begin(), agents.end(), [&](const auto& spec) { return spec.name == name; });
    return found == agents.end() ? nullptr : &*found;
}

}  // namespace atl::conversation
