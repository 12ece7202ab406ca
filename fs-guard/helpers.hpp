// The helper processes of a server: one for each kind of work, so that none waits for another's tree of a
// million files, and each at the priority of its work.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "fs-guard/helper_client.hpp"

namespace atl::fs_guard {

struct HelpersConfig {
    std::filesystem::path program;     // atoll-helper
    std::filesystem::path workspaces;  // the folder of workspaces and trash
    std::filesystem::path databases;   // the data directory
};

struct Helpers {
    /// Starts all of them. `timers` outlives them. Errors: host_unsupported.
    static base::Result<std::unique_ptr<Helpers>> start(base::Executor executor, base::Timers& timers,
                                                        const HelpersConfig& config);
    /// By what they do, for `/metrics`. Valid as long as this.
    std::map<std::string, const HelperClient*> by_work() const;

    std::unique_ptr<HelperClient> remover;
    std::unique_ptr<HelperClient> checkpointer;  // low priority: commits cost more until a checkpoint is done
    std::unique_ptr<HelperClient> measurer;
    std::unique_ptr<HelperClient> finder;     // normal priority: a request waits for its list
    std::unique_ptr<HelperClient> inspector;  // low priority: a sandbox stands still until it is done
};

}  // namespace atl::fs_guard
