#include "fs-guard/helpers.hpp"

#include <utility>

namespace atl::fs_guard {

base::Result<std::unique_ptr<Helpers>> Helpers::start(base::Executor executor, base::Timers& timers,
                                                      const HelpersConfig& config) {
    using isolation::Priority;
    auto helpers = std::make_unique<Helpers>();
    const auto one = [&](std::unique_ptr<HelperClient>& helper, const std::filesystem::path& folder,
                         Priority priority) -> base::Result<void> {
        auto started = HelperClient::start(executor, timers, {config.program, folder, priority});
        if (!started)
            return started.error();
        helper = std::move(*started);
        return {};
    };
    if (auto ok = one(helpers->remover, config.workspaces, Priority::background); !ok)
        return ok.error();
    if (auto ok = one(helpers->checkpointer, config.databases, Priority::low); !ok)
        return ok.error();
    if (auto ok = one(helpers->finder, config.databases, Priority::normal); !ok)
        return ok.error();
    if (auto ok = one(helpers->measurer, config.workspaces, Priority::background); !ok)
        return ok.error();
    if (auto ok = one(helpers->inspector, config.workspaces, Priority::low); !ok)
        return ok.error();
    return helpers;
}

std::map<std::string, const HelperClient*> Helpers::by_work() const {
    return {{"measure", measurer.get()},
            {"inspect", inspector.get()},
            {"remove", remover.get()},
            {"find", finder.get()},
            {"checkpoint", checkpointer.get()}};
}

}  // namespace atl::fs_guard
