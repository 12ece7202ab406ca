// Groups of processes by cgroup v2 (cgroups(7)): one group a generation of a sandbox, to end all of it at
// once and to know when it is empty. Limits and v1 hierarchies find their place here.
// Layout: PARENT/atoll-INSTANCE/NAME. The instance id in the name says for certain whose a group is, so a
// start after a crash can end and remove what is below its own, and nothing else.
// Invariants: only groups that this server made are touched; a group is removed only when it is empty.
// Not here: who belongs into a group (the launcher starts its child in it).
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cgroup/hierarchy.hpp"
#include "core/base/clock.hpp"
#include "core/base/task.hpp"
#include "core/base/unique_fd.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::cgroup {

class Groups final : public sandbox::ResourceGroups {
  public:
    /// Makes this server's own group below the first of `where` that lets it, and ends and removes what an
    /// earlier run left there. A host that offers no place is no error: create() then gives null pointers.
    /// `timers` outlives this and all its groups. Errors: host_unsupported if leftovers do not end.
    static base::Result<std::unique_ptr<Groups>> open(base::Executor executor, base::Timers& timers,
                                                      const std::string& instance_id,
                                                      const Candidates& where = find_candidates());
    ~Groups() override;

    /// `name` is a file name. Errors: sandbox_failed.
    base::Result<std::unique_ptr<sandbox::ResourceGroup>> create(const std::string& name,
                                                                 const sandbox::Limits& limits) override;
    void describe(sandbox::Enforcement& enforcement) const override;
    /// Where this server's groups are; empty if the host offers no place.
    const std::filesystem::path& parent() const noexcept { return parent_; }

  private:
    Groups(base::Executor executor, base::Timers& timers, std::filesystem::path parent,
           base::UniqueFd folder);

    base::Executor executor_;
    base::Timers& timers_;
    std::filesystem::path parent_;
    std::shared_ptr<base::UniqueFd> folder_;
};

}  // namespace atl::cgroup
