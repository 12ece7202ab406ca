// `file`: a call about files of the workspace. The member `op` says which; what each does is in the file of
// its family, file_job.hpp has the list. Paths in the command, in cursors and in changes are path text
// (core/plain/path_text.hpp), those of entries and refusals are shown ones; all are relative to the
// workspace, and resolved beneath it by the kernel.
#pragma once

#include <list>
#include <string>

#include "bridge/guest/call.hpp"
#include "bridge/guest/files/abandoned_copies.hpp"
#include "bridge/guest/guest_command.hpp"

namespace atl::guest {

class FileCommand final : public GuestCommand {
  public:
    FileCommand(Loop& loop, const std::string& workspace)
        : loop_(loop), workspace_(workspace), abandoned_(loop, workspace) {}
    void begin(Connection& connection, Command& command) override;

  private:
    Loop& loop_;
    const std::string& workspace_;
    AbandonedCopies abandoned_;  // outlives the calls
    std::list<Call> calls_;      // bounded by the connections
};

}  // namespace atl::guest
