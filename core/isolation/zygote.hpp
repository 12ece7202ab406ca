// A process of ours that is in its cgroups and waits to become a sandbox.
//
// A cgroup v1 hierarchy can only be joined by a write to cgroup.procs, for which the kernel waits for a grace
// period of RCU (7 to 20 ms the first time, nothing soon after): too long for the path of a create and far
// too long for the loop. A zygote is started ahead, joins by itself, and then becomes what it is told to.
// Told before it has joined, it only starts later.
// Not here: how many to keep (cgroup), what to become (bubblewrap_launcher.hpp).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/isolation/spawn.hpp"
#include "core/isolation/waiting_process.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::isolation {

class Zygote final : public sandbox::PreparedProcess {
  public:
    Zygote(Zygote&&) = default;
    /// The prepared process of a group as a zygote; null for null. Throws std::bad_cast where it is anything
    /// else.
    static Zygote* from(sandbox::PreparedProcess* prepared) {
        return prepared == nullptr ? nullptr : &dynamic_cast<Zygote&>(*prepared);
    }
    /// Starts `program` (atoll-zygote) in the v2 group `group_fd`, if not negative, to join `join_fds`:
    /// cgroup.procs files open for writing. Errors: sandbox_failed.
    static base::Result<Zygote> start(const std::filesystem::path& program, int group_fd,
                                      const std::vector<int>& join_fds);
    /// Makes it run `program` with `args` by `plan`, whose group_fd is not looked at. At most once. What
    /// fails before the exec is told on the plan's stderr, and the process ends with 127. Errors:
    /// sandbox_failed if it is gone.
    base::Result<Spawned> become(const std::string& program, const std::vector<std::string>& args,
                                 const ChildPlan& plan);

  private:
    explicit Zygote(WaitingProcess process) : process_(std::move(process)) {}

    WaitingProcess process_;  // its destructor ends a zygote without a program
};

}  // namespace atl::isolation
