// `exec`: a program with stdin, stdout and stderr as frames, and its exit. Checks what was asked for; what
// runs is in exec_run.hpp. One refusal line for all that cannot be run.
#pragma once

#include <list>

#include "bridge/guest/exec_run.hpp"
#include "bridge/guest/guest_command.hpp"

namespace atl::guest {

/// Programs that run at the same time, those included that are being ended.
inline constexpr std::size_t k_max_exec_runs = 64;

class ExecCommand final : public GuestCommand {
  public:
    explicit ExecCommand(Services& services) : services_(services) {}
    void begin(Connection& connection, Command& command) override;

  private:
    Services& services_;
    std::list<ExecRun> runs_;
};

}  // namespace atl::guest
