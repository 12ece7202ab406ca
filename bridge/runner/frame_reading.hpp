// The port to who reads frames that take more than the loop has time for (bridge/checker; tests a fake).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bridge/runner/frames.hpp"
#include "core/base/error.hpp"
#include "core/execution/offloaded_checks.hpp"

namespace atl::bridge::runner {

class FrameReading {
  public:
    using Callback = std::function<void(base::Result<RunnerFrame>)>;

    virtual ~FrameReading() = default;
    /// Does what read_frame() does, with the rules of execution::OffloadedChecks.
    virtual std::unique_ptr<execution::OffloadedJob> read(const std::string& user, std::string json,
                                                          std::uint64_t max_value_bytes, Callback told) = 0;
};

}  // namespace atl::bridge::runner
