// `exec`: a program with stdin, stdout and stderr as frames, and its exit. Checks what was asked for; what
// runs is in exec_run.hpp. One refusal line for all that cannot be run.
#pragma once

#include <list>

#include "bridge/guest/exec_run.hpp"
#include "bridge/guest/guest_command.hpp"

namespace atl::guest {

class ExecCommand final : public GuestCommand {
  public:
    explicit ExecCommand(Services& services) : services_(services) {}
    void begin(Connection& connection, Command& command) override;

  private:
    Services& services_;
    std::list<ExecRun> runs_;  // those included that are being ended
};

}  // namespace atl::guest
