// The implementation of the port to programs (core/execution/program.hpp): an engine as a program of the
// sandbox, started through exec, with the runner's frames on its stdin and stdout. What it writes to stderr
// is read and dropped. Not here: what may come when (frames.hpp), limits of time and memory (core/execution).
#pragma once

#include <memory>

#include "core/execution/program.hpp"

namespace atl::bridge::runner {

class RunnerPrograms final : public execution::Programs {
  public:
    std::unique_ptr<execution::Program> start(sandbox::Operations& operations,
                                              const execution::Engine& engine,
                                              execution::ProgramObserver& observer) override;
};

}  // namespace atl::bridge::runner
