#include "app/host.hpp"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "app/part_settings.hpp"
#include "app/programs.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/own_priority.hpp"
#include "core/isolation/etc_template.hpp"
#include "core/isolation/host_layout.hpp"
#include "core/isolation/inner_socket.hpp"
#include "core/plain/inner_paths.hpp"

namespace atl::app {

void take_priority(int nice) {
    if (nice < 0 && !base::set_own_priority(nice))
        base::LogLine(base::evt::priority_refused).field("nice", nice).debug();
}

std::string path_of_sandboxes(const isolation::HostLayout& layout) {
    const char* path = std::getenv("PATH");
    return isolation::inner_path(layout, path != nullptr ? path : "");
}

base::Result<isolation::HostLayout> layout_of_host(const Config& config) {
    const std::vector<std::filesystem::path> hidden(config.hidden_paths.begin(), config.hidden_paths.end());
    return isolation::probe_layout(hidden, "/", {config.shown_etc.begin(), config.shown_etc.end()});
}

base::Result<isolation::LauncherConfig> make_launcher_config(const Config& config, const DataDir& data,
                                                             const std::vector<sandbox::AgentSpec>& agents) {
    auto layout = layout_of_host(config);
    if (!layout)
        return layout.error();
    if (auto written = isolation::write_etc(data.etc(), *layout); !written)
        return written.error();
    if (auto made = isolation::make_masks(data.masks()); !made)
        return made.error();
    isolation::LauncherConfig launcher;
    launcher.bwrap = config.bwrap.empty() ? find_program("bwrap").string() : config.bwrap.string();
    launcher.guest = config.guest;
    std::error_code no_program;
    const std::filesystem::path agent_program = config.guest.parent_path() / base::k_agent_program;
    if (std::filesystem::exists(agent_program, no_program))
        launcher.agent_program = agent_program;
    if (!isolation::can_join_net_namespaces())
        launcher.zygote = config.zygote;
    launcher.run_dir = data.run();
    launcher.etc_dir = data.etc();
    launcher.masks_dir = data.masks();
    launcher.sources = {data.path()};
    for (const auto& agent : agents) {
        if (agent.dir)
            launcher.sources.push_back(*agent.dir);
    }
    const execution::EngineFolders engines = engine_folders(config);
    for (const std::filesystem::path& folder : {engines.runners, engines.packages}) {
        std::error_code ignored;
        if (std::filesystem::is_directory(folder, ignored))
            launcher.sources.push_back(folder);
    }
    launcher.layout = std::move(*layout);
    launcher.uid_mode = isolation::own_uid_mode();
    launcher.host_network =
        config.allow_host_network ? isolation::HostNetwork::allowed : isolation::HostNetwork::refused;
    return launcher;
}

}  // namespace atl::app
