// `tool {name, args, context?, readBeforeEdit?}`: one of the filesystem tools. The reply has `success`, and
// `changedFiles` where there are any; the bytes behind it are the result object, with the `context` as it
// came. A tool that fails has a result all the same; refused is only what is no call of a tool.
#pragma once

#include <list>

#include "bridge/agents/runtime.hpp"
#include "bridge/guest/call.hpp"
#include "bridge/guest/guest_command.hpp"
#include "bridge/guest/tools/read_files.hpp"
#include "bridge/guest/tools/workspace_path.hpp"

namespace atl::guest {

class ToolCommand final : public GuestCommand {
  public:
    explicit ToolCommand(const Services& services);
    void begin(Connection& connection, Command& command) override;

  private:
    const Services& services_;
    const WorkspacePaths paths_;
    ReadFiles read_files_;
    std::list<Call> calls_;
};

}  // namespace atl::guest
