// The implementation of the port to programs (core/execution/program.hpp): an engine as a program of the
// sandbox, started through exec, with the runner's frames on its stdin and stdout. What it writes to stderr
// is read and dropped. Not here: what may come when (frames.hpp), limits of time and memory (core/execution).
#pragma once

#include <memory>

#include "bridge/runner/frame_reading.hpp"
#include "core/execution/program.hpp"

namespace atl::bridge::runner {

class RunnerPrograms final : public execution::Programs {
  public:
    /// `long_frames` reads those that take more than the loop has time for, and outlives all programs. Null:
    /// they are read here.
    explicit RunnerPrograms(FrameReading* long_frames = nullptr) : long_frames_(long_frames) {}

    std::unique_ptr<execution::Program> start(sandbox::Operations& operations,
                                              const execution::Engine& engine,
                                              execution::ProgramObserver& observer) override;

  private:
    FrameReading* long_frames_;
};

}  // namespace atl::bridge::runner
