// Records of requests on the way out of sandboxes, with the files and logs that they go to.
#pragma once

#include <memory>

#include "app/config.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/manager.hpp"
#include "http/egress/egress_recorder.hpp"

namespace atl::app {

/// All references must outlive it. Errors: storage_failed, if the file of --egress-log cannot be opened.
base::Result<std::shared_ptr<http::EgressRecorder>> open_egress_recorder(const Config& config,
                                                                         const base::Clock& clock,
                                                                         base::Timers& timers,
                                                                         conversation::Manager& conversations,
                                                                         const sandbox::Manager& sandboxes);

}  // namespace atl::app
