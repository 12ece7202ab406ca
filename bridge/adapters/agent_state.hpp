// The folder of an agent's own state in the workspace: it outlives a generation, and so the agent's session
// does. All in it may have been written by anybody inside: nothing here trusts it, and it is no more than the
// agent itself could say.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::adapter {

/// The longest session that is read back.
inline constexpr std::size_t k_max_kept_session_bytes = 1024;

class AgentState {
  public:
    /// `WORKSPACE/.atoll/agents/NAME`.
    AgentState(const std::string& workspace, const std::string& agent);

    const std::string& folder() const noexcept { return folder_; }
    /// Makes the folder and writes `files`, by paths in it, in place of all that is there. Returns what went
    /// wrong; empty: nothing.
    std::string prepare(const std::vector<std::pair<std::string, std::string>>& files) const;
    /// The one of an earlier start; empty: none. It is given once, until confirm(): a start that an old
    /// session does not survive is not tried again.
    std::string take_session() const;
    /// The agent works with the session that was taken.
    void confirm() const;
    /// In place of the one that is there; an empty one removes it. Returns as prepare().
    std::string keep_session(std::string_view session) const;

  private:
    std::string folder_;
};

}  // namespace atl::adapter
