// Every metric of `/metrics`: its name, its help, and the part that its value is read from. README.md,
// "Watching it", tells operators of them. Not here: counting, which the parts do, and the format
// (http/server/metrics.hpp).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "bridge/checker/checker.hpp"
#include "core/base/loop_meter.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/isolation/running_sandbox.hpp"
#include "core/sandbox/manager.hpp"
#include "fs-guard/helper_client.hpp"
#include "http/api/api.hpp"
#include "http/egress/egress_recorder.hpp"
#include "http/server/metrics.hpp"
#include "http/server/server.hpp"

namespace atl::app {

/// The sources of the metrics; all of them outlive the metrics.
struct MetricParts {
    const sandbox::Manager& sandboxes;
    const isolation::LaunchFailures& launch_failures;
    const conversation::Manager& conversations;
    const conversation::Journal& journal;
    const http::Api& api;
    const http::Server& server;
    const base::LoopMeter& meter;
    const bridge::checker::Checker& checker;
    std::map<std::string, const fs_guard::HelperClient*> helpers;  // by what they do: "measure"
    std::filesystem::path data_dir;
    const http::EgressRecorder* egress = nullptr;  // null: no sandbox has network `egress`
};

/// Throws std::logic_error if a name breaks the rules of http::Metrics.
void add_metrics(http::Metrics& to, const MetricParts& from);

}  // namespace atl::app
